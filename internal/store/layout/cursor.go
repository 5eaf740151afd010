package layout

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// A cursor says which kind of list it is of, so that a list of another kind refuses it. Nodes of the release before
// this one write cursors that do not say it, and read those that do: the sign of a score means nothing to them, and a
// name with something behind it is the next name.

// EntryList is a kind of list whose cursors are entries: what their text begins with.
type EntryList string

// The kinds of lists of entries.
const (
	TaskEntries   EntryList = ""
	LedgerEntries EntryList = "+"
)

// NameList is a kind of list whose cursors are names: what follows the name and a zero byte.
type NameList string

// The kinds of lists of names.
const (
	ScheduleNames NameList = "schedules"
	LockNames     NameList = "locks"
	WorkflowNames NameList = "workflows"
)

// Cursor is the entry as an opaque text, safe in a URL.
func (e Entry) Cursor(list EntryList) string {
	return encodeCursor(string(list) + e.score() + " " + e.Member)
}

// ParseCursor reads what Cursor returned; "" is nil, the start. Error: CodeInvalid.
func ParseCursor(list EntryList, cursor string) (*Entry, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // nil is the start
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	score, member, ok := strings.Cut(string(raw), " ")
	n, errScore := strconv.ParseFloat(score, 64)
	if err != nil || !ok || errScore != nil || strings.Trim(score, "+-.0123456789") != "" {
		return nil, InvalidCursor()
	}
	signed := strings.HasPrefix(score, string(LedgerEntries))
	unsigned := list == LedgerEntries && !signed && strings.Contains(member, " ") // as no name of a task does
	if signed != (list == LedgerEntries) && !unsigned {
		return nil, InvalidCursor()
	}
	return &Entry{Score: n, Member: member}, nil
}

// NameCursor is the name behind which a list goes on as an opaque text, safe in a URL.
func NameCursor(list NameList, name string) string { return encodeCursor(name + "\x00" + string(list)) }

// ParseNameCursor reads what NameCursor returned; "" is "", the start. Error: CodeInvalid.
func ParseNameCursor(list NameList, cursor string) (name string, _ error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	name, kind, marked := strings.Cut(string(raw), "\x00")
	if err != nil || marked && kind != string(list) || !marked && strings.ContainsAny(name, " :") {
		return "", InvalidCursor()
	}
	return name, nil
}

func encodeCursor(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// InvalidCursor is the error, with CodeInvalid, for a cursor that this list has not returned.
func InvalidCursor() error {
	return task.Invalid("cursor", "must be a next_cursor that this list returned")
}
