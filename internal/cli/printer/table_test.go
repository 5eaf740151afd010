package printer

import (
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestWidth_CountsColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "é": 1, "e\u0301": 1, "夜间备份": 8, "ｱ": 1, "🚀": 2, "👩‍🚀": 2, "🇩🇪": 2, "│█": 2, "…": 1,
	} {
		if got := Width(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
}

func TestClip_CountsColumns(t *testing.T) {
	for text, want := range map[string]string{"夜间备份": "夜间…", "🚀🚀🚀": "🚀🚀…", "abcdef": "abcd…", "abcde": "abcde"} {
		if got := clip(text, 5); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestPrintTable_AlignsWideCharacters(t *testing.T) {
	type row struct{ id, owner string }
	columns := []Column[row]{
		{"id", func(r row) any { return r.id }},
		{"owner", func(r row) any { return r.owner }},
		{"note", func(row) any { return "x" }},
	}
	var out strings.Builder
	p := New(Options{Out: &out, OutIsTerminal: true})
	testkit.Must(t, PrintTable(p, columns, []row{{"nightly", "夜间备份"}, {"e\u0301t", "ops 🚀"}, {"b", "me"}}))
	want := "ID       OWNER     NOTE\n" +
		"nightly  夜间备份  x\n" +
		"e\u0301t       ops 🚀    x\n" +
		"b        me        x\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
