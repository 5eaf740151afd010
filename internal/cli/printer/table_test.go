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
		{Name: "id", Value: func(r row) any { return r.id }},
		{Name: "owner", Value: func(r row) any { return r.owner }},
		{Name: "note", Value: func(row) any { return "x" }},
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

func TestPrintTable_CutsWhatGivesToTheWidth(t *testing.T) {
	type row struct{ id, queues, labels string }
	columns := []Column[row]{
		{Name: "id", Value: func(r row) any { return r.id }},
		{Name: "queues", Value: func(r row) any { return List(strings.Fields(r.queues)) }, Gives: true},
		{Name: "labels", Value: func(r row) any { return List(strings.Fields(r.labels)) }, Gives: true},
	}
	rows := []row{{"n1", "critical default low", "gpu=2 zone=eu"}, {"n2", "pdf", "夜间=备份,夜"}}
	for width, want := range map[int]string{
		42: "ID  QUEUES                  LABELS\n" +
			"n1  critical, default, low  gpu=2, zone=eu\n" +
			"n2  pdf                     夜间=备份,夜\n",
		40: "ID  QUEUES                  LABELS\n" +
			"n1  critical, default, low  gpu=2, zone…\n" +
			"n2  pdf                     夜间=备份,夜\n",
		34: "ID  QUEUES                LABELS\n" +
			"n1  critical, default, …  gpu=2, …\n" +
			"n2  pdf                   夜间=备…\n",
		10: "ID  QUEUES    LABELS\n" +
			"n1  critica…  gpu=2, …\n" +
			"n2  pdf       夜间=备…\n",
		0: "ID  QUEUES                  LABELS\n" + // unknown
			"n1  critical, default, low  gpu=2, zone=eu\n" +
			"n2  pdf                     夜间=备份,夜\n",
	} {
		var out strings.Builder
		p := New(Options{Out: &out, OutIsTerminal: true, Width: width})
		testkit.Must(t, PrintTable(p, columns, rows))
		if out.String() != want {
			t.Errorf("%d columns: got\n%swant\n%s", width, out.String(), want)
		}
	}
}
