// Package test has the tests that concern more than one package: whole programs, the documentation, and which package may
// import which.
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

const (
	module = "github.com/dts-sched/dts"
	root   = "dts" // the name of the package at the root of the module
)

// floors lists the layers of this module, the lowest first: a package imports packages of lower layers only, and none of its
// own. A package that is not named here itself belongs to the nearest one above it in the tree (internal/worker/executor to
// internal/worker), and packages that belong to the same one may import each other.
//
// Some layers have several rows, each of which may import the rows before it. In layer 0, schedule uses task, and the Lua
// border uses both. The planner of hand-overs writes what claims are told as that border reads it. In layer 2, the conversion of older data asks the registry which nodes are alive. In layer 3, the use
// cases have the event hub and the sessions of remote workers below them. In layer 4, what is served over HTTP has the
// server below it, the types that it shares with clients, and what reads and writes these. In layer 5, the commands of dtsctl use what they share, and
// do not import each other.
var floors = []floor{
	{0, []string{"internal/batch", "internal/calls", "internal/clock", "internal/config", "internal/task"}},
	{0, []string{"internal/change", "internal/fresh", "internal/limit", "internal/route", "internal/schedule"}},
	{0, []string{"internal/index", "internal/rollup", "internal/status", "internal/why", "internal/workflow"}},
	{0, []string{"lua"}},
	{0, []string{"internal/handover"}},
	{1, []string{"internal/redisx", "internal/telemetry", "internal/tracing"}},
	{2, []string{"internal/cluster", "internal/lease", "internal/queue"}},
	{2, []string{"internal/store"}},
	{3, []string{"internal/events", "internal/remote"}},
	{3, []string{"internal/control", "internal/scheduler", "internal/worker"}},
	{4, []string{"internal/edge", "internal/api/wire"}},
	{4, []string{"internal/definition"}},
	{4, []string{"internal/manifest"}},
	{4, []string{"internal/api", "internal/api/client"}},
	{4, []string{"internal/api/rest", "internal/apidocs", "internal/web"}},
	{5, []string{"internal/cli/printer", "internal/cli/server"}},
	{5, []string{"internal/cli/command", "internal/cli/diff"}},
	{5, []string{"internal/cli/flags", "internal/cli/taskview", "internal/cli/whyview"}},
	{5, []string{"internal/cli/bulkview", "internal/cli/complete"}},
	{5, []string{
		"internal/cli/apply", "internal/cli/bench", "internal/cli/bulk", "internal/cli/doctor", "internal/cli/events", "internal/cli/flow", "internal/cli/importer", "internal/cli/lock", "internal/cli/namespace",
		"internal/cli/limit", "internal/cli/memory", "internal/cli/node", "internal/cli/queue", "internal/cli/schedule", "internal/cli/task",
	}},
	{5, []string{"internal/app", "internal/cli"}},
	{6, []string{"cmd/dtsctl", "cmd/dtsd", root}},
	{6, []string{"dtstest", "examples"}},
}

type floor struct {
	number   int
	packages []string
}

// forTests are imported by tests only, and import what tests need.
var forTests = []string{
	"internal/api/wire/wiretest", "internal/cli/clitest", "internal/lease/leasetest", "internal/redistest",
	"internal/store/storetest", "internal/testkit", "internal/worker/executor/executortest",
	"internal/workflow/flowtest", "test",
}

func TestFloors_ImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		if belongsTo(p.name, forTests) != "" {
			continue
		}
		owner, floor := find(p.name)
		if owner == "" {
			t.Errorf("%s belongs to no layer: add it to the table in test/floors_test.go", p.name)
			continue
		}
		for _, imported := range p.imports {
			if belongsTo(imported, forTests) != "" {
				t.Errorf("%s imports %s, which is for tests only", p.name, imported)
				continue
			}
			below, lower := find(imported)
			if below != owner && lower >= floor {
				t.Errorf("%s (layer %d) imports %s (layer %d): a package imports lower layers only", p.name, floors[floor].number, imported, floors[lower].number)
			}
		}
	}
}

// edges take requests, and pass them to the use cases in internal/control: they know nothing of what is below these.
var edges, behindTheGate = []string{
	"internal/edge", "internal/api", "internal/cli", "internal/web", root, "dtstest", "examples",
}, []string{
	"internal/lease", "internal/queue", "internal/remote", "internal/store",
}

func TestFloors_EdgesReachNothingBehindTheGate(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		if belongsTo(p.name, edges) == "" || belongsTo(p.name, forTests) != "" {
			continue
		}
		for _, imported := range p.imports {
			if belongsTo(imported, behindTheGate) != "" {
				t.Errorf("%s imports %s: an edge asks package control", p.name, imported)
			}
		}
	}
}

// Tests may import what they test with, but nothing from a higher layer than the package under test: a package
// whose tests need a higher layer is in the wrong one.
func TestFloors_TestsImportNothingFromAbove(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		if belongsTo(p.name, forTests) != "" {
			continue
		}
		_, floor := find(p.name)
		for _, imported := range p.testImports {
			if _, other := find(imported); other > floor && !slices.Contains(forTests, imported) {
				t.Errorf("the tests of %s (layer %d) import %s (layer %d)", p.name, floors[floor].number, imported, floors[other].number)
			}
		}
	}
}

func TestFloors_APackageBelongsToTheNearestOneAboveIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"internal/worker/executor":  "internal/worker",
		"internal/api/client":       "internal/api/client",
		"internal/api/wire":         "internal/api/wire",
		"internal/task/machinedoc":  "internal/task",
		"internal/workers":          "",
		"internal/somewhere/worker": "",
	} {
		if got, _ := find(name); got != want {
			t.Errorf("%s belongs to %q, want %q", name, got, want)
		}
	}
}

// find returns the package of the table to which a package belongs and the index of its row; "" if it belongs to none.
func find(name string) (string, int) {
	owner, at := "", -1
	for floor := range floors {
		if nearer := belongsTo(name, floors[floor].packages); len(nearer) > len(owner) {
			owner, at = nearer, floor
		}
	}
	return owner, at
}

// belongsTo returns the longest of owners that is name or lies above it in the tree, or "".
func belongsTo(name string, owners []string) string {
	longest := ""
	for _, owner := range owners {
		if (name == owner || strings.HasPrefix(name, owner+"/")) && len(owner) > len(longest) {
			longest = owner
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
	var all []listed
	for _, p := range goList(t, module+"/...") {
		all = append(all, listed{
			name:        nameOf(p.ImportPath),
			imports:     ours(p.Imports),
			testImports: ours(append(p.TestImports, p.XTestImports...)),
		})
	}
	return all
}

// goPackage is a package as go list knows it.
type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	noteSources(t)
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,TestImports,XTestImports"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("reading the answer of go list: %v", err)
		}
		all = append(all, p)
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
		if path == module || strings.HasPrefix(path, module+"/") {
			names = append(names, nameOf(path))
		}
	}
	return names
}

// nameOf returns the name of a package of this module, by which the table knows it.
func nameOf(path string) string {
	if path == module {
		return root
	}
	return strings.TrimPrefix(path, module+"/")
}
