// Package test holds the tests of the whole.
package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/dts-sched/dts"

// floors is the house: a package imports packages of lower floors only. Those of one floor do not know each
// other. A package that is not named here itself belongs to the nearest one above it in the tree
// (internal/worker/executor to internal/worker), and such rooms of one apartment may import each other.
//
// Some floors have steps. On the ground floor, schedule builds upon task, and the Lua border upon both. On the fifth,
// the commands of dtsctl build upon what they share, and do not know each other.
var floors = []floor{
	{0, []string{"internal/clock", "internal/config", "internal/task"}},
	{0, []string{"internal/schedule"}},
	{0, []string{"lua"}},
	{1, []string{"internal/redisx", "internal/telemetry"}},
	{2, []string{"internal/cluster", "internal/lease", "internal/queue", "internal/store"}},
	{3, []string{"internal/control", "internal/events", "internal/scheduler", "internal/worker"}},
	{4, []string{"internal/api", "internal/api/client"}},
	{5, []string{"internal/cli/printer", "internal/cli/server"}},
	{5, []string{"internal/cli/command", "internal/cli/diff"}},
	{5, []string{"internal/cli/flags", "internal/cli/taskview"}},
	{5, []string{
		"internal/cli/apply", "internal/cli/events", "internal/cli/namespace", "internal/cli/node", "internal/cli/queue", "internal/cli/schedule", "internal/cli/task",
	}},
	{5, []string{"internal/app", "internal/cli"}},
	{6, []string{"cmd/dtsctl", "cmd/dtsd"}},
}

type floor struct {
	number int
	rooms  []string
}

// forTests are imported by tests only, and import what tests need.
var forTests = []string{
	"internal/cli/clitest", "internal/redistest", "internal/store/storetest", "internal/testkit", "internal/worker/executor/executortest", "test",
}

func TestFloors_ImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		if belongsTo(p.name, forTests) != "" {
			continue
		}
		room, floor := find(p.name)
		if room == "" {
			t.Errorf("%s stands on no floor: add it to the table in test/floors_test.go", p.name)
			continue
		}
		for _, imported := range p.imports {
			if belongsTo(imported, forTests) != "" {
				t.Errorf("%s imports %s, which is for tests only", p.name, imported)
				continue
			}
			below, lower := find(imported)
			if below != room && lower >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports point down only", p.name, floors[floor].number, imported, floors[lower].number)
			}
		}
	}
}

// Tests may import what they test with, but not what stands above the package under test: a package whose
// tests need the floor above is on the wrong floor.
func TestFloors_TestsImportNothingFromAbove(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		if belongsTo(p.name, forTests) != "" {
			continue
		}
		_, floor := find(p.name)
		for _, imported := range p.testImports {
			if _, other := find(imported); other > floor && !slices.Contains(forTests, imported) {
				t.Errorf("the tests of %s (floor %d) import %s (floor %d)", p.name, floors[floor].number, imported, floors[other].number)
			}
		}
	}
}

func TestFloors_APackageBelongsToTheNearestRoomAboveIt(t *testing.T) {
	t.Parallel()
	for room, want := range map[string]string{
		"internal/worker/executor":  "internal/worker",
		"internal/api/client":       "internal/api/client",
		"internal/task/machinedoc":  "internal/task",
		"internal/workers":          "",
		"internal/somewhere/worker": "",
	} {
		if got, _ := find(room); got != want {
			t.Errorf("%s belongs to %q, want %q", room, got, want)
		}
	}
}

// find returns the room of the table to which a package belongs and the index of its floor; "" if it belongs to none.
func find(name string) (string, int) {
	for floor := len(floors) - 1; floor >= 0; floor-- {
		if room := belongsTo(name, floors[floor].rooms); room != "" {
			return room, floor
		}
	}
	return "", -1
}

// belongsTo is the longest of rooms that name lies in, or "".
func belongsTo(name string, rooms []string) string {
	longest := ""
	for _, room := range rooms {
		if (name == room || strings.HasPrefix(name, room+"/")) && len(room) > len(longest) {
			longest = room
		}
	}
	return longest
}

// listed is a package of this module and which others of this module it imports, named by their paths
// within the module.
type listed struct {
	name                 string
	imports, testImports []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	noteSources(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("reading the answer of go list: %v", err)
		}
		all = append(all, listed{
			name:        strings.TrimPrefix(p.ImportPath, module+"/"),
			imports:     ours(p.Imports),
			testImports: ours(append(p.TestImports, p.XTestImports...)),
		})
	}
	if len(all) == 0 {
		t.Fatal("go list found no package")
	}
	return all
}

// noteSources looks at every source file, so that go test knows what the result depends on and does not
// answer from its cache after one of them changed: it cannot see what go list reads.
func noteSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a file may vanish while its editor saves it
		t.Fatal(err)
	}
}

func ours(imports []string) []string {
	var names []string
	for _, path := range imports {
		if name, ok := strings.CutPrefix(path, module+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}
