package layout

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Limits of lists that filter what they read.
const (
	ScanChunk  = 500    // entries read in one round trip
	ScanBudget = 20_000 // entries read in one request; beyond it a page ends early, with a cursor
)

// Entry is a member of a sorted set with its score: usually a task and a time in ms since 1970.
type Entry struct {
	Score  int64
	Member string
}

// newerFirst orders entries as lists show them: by score, then by member, both descending.
func newerFirst(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Member, a.Member))
}

// readSets is the most sets that one run of a script reads: Redis does nothing else meanwhile.
const readSets = 100

// ReadEntries reads the newest n entries of all sets together that come after from, newest first; from nil is the start. The
// sets are grouped: those of a group are of one partition. more is false if no entries follow. Error: CodeUnavailable.
func (l *Layout) ReadEntries(ctx context.Context, groups [][]lua.ZSetKey, from *Entry, n int) (_ []Entry, more bool, _ error) {
	var all []Entry
	for _, page := range redisx.RunEach[lua.ReadPageReply](ctx, l.DB, readCalls(groups, from, n)) {
		if page.Err != nil {
			return nil, false, Unavailable(page.Err)
		}
		more = more || len(page.Reply.Entries) == n
		for _, e := range page.Reply.Entries {
			all = append(all, Entry{Score: int64(e.Score), Member: e.Member})
		}
	}
	slices.SortFunc(all, newerFirst)
	if len(all) > n {
		return all[:n], true, nil
	}
	return all, more, nil
}

// readCalls are the calls that read n entries of each group of sets, or of each readSets of a group.
func readCalls(groups [][]lua.ZSetKey, from *Entry, n int) []lua.ReadPage {
	score, member := "", ""
	if from != nil {
		score, member = strconv.FormatInt(from.Score, 10), from.Member
	}
	var calls []lua.ReadPage
	for _, sets := range groups {
		for some := range slices.Chunk(sets, readSets) {
			call := lua.ReadPage{ZSet: some[0], Score: score, Member: member, Limit: n, Others: nil}
			for _, set := range some[1:] {
				call.Others = append(call.Others, string(set))
			}
			calls = append(calls, call)
		}
	}
	return calls
}

// Cursor is the entry as an opaque text, safe in a URL.
func (e Entry) Cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(e.Score, 10) + " " + e.Member))
}

// ParseCursor reads what Cursor returned; "" is nil, the start. Error: CodeInvalid.
func ParseCursor(cursor string) (*Entry, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // nil is the start
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	score, member, ok := strings.Cut(string(raw), " ")
	n, errScore := strconv.ParseInt(score, 10, 64)
	if err != nil || !ok || errScore != nil {
		return nil, InvalidCursor()
	}
	return &Entry{Score: n, Member: member}, nil
}

// InvalidCursor is the error, with CodeInvalid, for a cursor that no list returned.
func InvalidCursor() error {
	return task.Invalid("cursor", "must be a next_cursor that a list returned")
}
