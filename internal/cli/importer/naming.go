package importer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/cli/importer/crontab"
)

// naming gives ids to the entries of a crontab. An id says what is run, and not when: a new time, or another line, leaves it
// as it is. Or else the next import would make a second schedule of the same line.
type naming struct {
	lines map[string]int // the line of each entry
	count map[string]int // entries of the same name
}

func newNaming() *naming { return &naming{lines: make(map[string]int), count: make(map[string]int)} }

// name returns the id of the next entry, without the prefix. Entries that run the same at other times get -2, -3 and so on in
// their order. twin is the line of an earlier entry that is the same in everything, or 0.
func (n *naming) name(e crontab.Entry) (id string, twin int) {
	id = readable(e.Command) + "-" + digest(e)
	if twin = n.lines[whole(e)]; twin > 0 {
		return id, twin
	}
	n.lines[whole(e)] = e.Line
	if n.count[id]++; n.count[id] > 1 {
		id += fmt.Sprintf("-%d", n.count[id])
	}
	return id, 0
}

// whole is the same for two entries that differ in nothing but their lines.
func whole(e crontab.Entry) string {
	e.Line = 0
	return fmt.Sprintf("%#v", e)
}

// digest is that of what an entry runs, as whom and with which variables. No part has a NUL. A change of this function gives
// all schedules new ids.
func digest(e crontab.Entry) string {
	parts := []string{e.User, cmp.Or(e.Shell, defaultShell), e.Command, e.Stdin}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		parts = append(parts, name+"="+e.Env[name])
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

var (
	changesDir = regexp.MustCompile(`^\s*cd\s+\S+\s*(?:&&|;)\s*`)
	shellRest  = regexp.MustCompile(`\s*(?:\d*[<>]|[|;&]).*$`)
	folders    = regexp.MustCompile(`[^\s=:]*/`)
	notInIDs   = regexp.MustCompile(`[^a-z0-9._]+`)
)

// nameLimit leaves room for a prefix and a digest.
const nameLimit = 60

// readable makes a name of the first words of a command, without folders: "backup.sh-full" of "/opt/backup.sh --full >/dev/null".
func readable(line string) string {
	line = changesDir.ReplaceAllString(strings.ToLower(line), "")
	line = folders.ReplaceAllString(shellRest.ReplaceAllString(line, ""), "")
	name := strings.Trim(notInIDs.ReplaceAllString(line, "-"), "-._")
	return cmp.Or(strings.Trim(name[:min(len(name), nameLimit)], "-._"), "command")
}
