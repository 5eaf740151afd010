package handover

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/lua"
)

// What is served may change, and change back, while claims look at many tasks in parts.
func TestApart_LooksAgainIfWhatIsServedChangesDuringALook(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	a, waits := &apart{lanes: []Lane{{Queue: "waits"}}}, []Lane{{Queue: "waits"}}
	claim := func(served, next string) string {
		t.Helper()
		now = now.Add(unnamedPause)
		if !a.due(served, now) {
			return ""
		}
		g := Grant{Served: served}
		a.grant(&g, now)
		a.note(g, Outcome{Found: Found{Backlog: Backlog{}, Apart: waits, Unnamed: next}}, now)
		return g.Unnamed
	}
	for i, c := range []struct{ served, next, want string }{
		{"one", "5 t", lua.FirstUnnamed}, {"both", "6 t", "5 t"}, {"one", "", "6 t"},
		{"one", "", lua.FirstUnnamed}, // what the looks have passed while "both" were served
		{"one", "", ""}, {"both", "", lua.FirstUnnamed}, {"both", "", ""},
	} {
		if got := claim(c.served, c.next); got != c.want {
			t.Errorf("claim %d looks from %q, want %q", i, got, c.want)
		}
	}
	if now = now.Add(unnamedTime); claim("both", "") != lua.FirstUnnamed {
		t.Error("it does not look again after a long time")
	}
	now = now.Add(unnamedTime)
	g := Grant{Served: "both"}
	a.grant(&g, now)
	a.note(g, Outcome{}, now)
	if got := claim("both", ""); got != lua.FirstUnnamed {
		t.Errorf("after a claim that failed, one looks from %q", got)
	}
}
