package layout

import (
	"encoding/base64"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

func TestParseCursor_ReadsThoseOfItsListOnly(t *testing.T) {
	t.Parallel()
	ofTask, ofTick := Entry{17, "default:a"}, Entry{17, "20260102T150405Z fired 1 0 17 1 "}
	earlier := func(text string) string { // of the release before
		return base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	for _, c := range []struct {
		list   EntryList
		cursor string
		want   *Entry // nil: it is refused
	}{
		{TaskEntries, ofTask.Cursor(TaskEntries), &ofTask},
		{TaskEntries, Entry{17, "no name"}.Cursor(TaskEntries), &Entry{17, "no name"}},
		{TaskEntries, ofTick.Cursor(LedgerEntries), nil},
		{LedgerEntries, ofTick.Cursor(LedgerEntries), &ofTick},
		{LedgerEntries, Entry{17, "{"}.Cursor(LedgerEntries), &Entry{17, "{"}},
		{LedgerEntries, ofTask.Cursor(TaskEntries), nil},
		{TaskEntries, earlier("17 default:a"), &ofTask},
		{LedgerEntries, earlier("17 " + ofTick.Member), &ofTick},
		{TaskEntries, NameCursor(ScheduleNames, "a"), nil},
		{LedgerEntries, NameCursor(LockNames, "a"), nil},
		{TaskEntries, "nonsense!", nil},
	} {
		got, err := ParseCursor(c.list, c.cursor)
		refused := task.CodeOf(err) == task.CodeInvalid
		if refused != (c.want == nil) || !refused && (err != nil || *got != *c.want) {
			t.Errorf("%q %q: %v, %v; want %v", c.list, c.cursor, got, err, c.want)
		}
	}
}

func TestParseNameCursor_ReadsThoseOfItsListOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cursor, want string // "": it is refused
	}{
		{NameCursor(LockNames, "a"), "a"},
		{NameCursor(ScheduleNames, "a"), ""},
		{base64.RawURLEncoding.EncodeToString([]byte("a")), "a"}, // of the release before
		{Entry{17, "default:a"}.Cursor(TaskEntries), ""},
		{Entry{17, "20260102T150405Z fired"}.Cursor(LedgerEntries), ""},
		{"nonsense!", ""},
	} {
		got, err := ParseNameCursor(LockNames, c.cursor)
		if refused := task.CodeOf(err) == task.CodeInvalid; refused != (c.want == "") || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.cursor, got, err, c.want)
		}
	}
}
