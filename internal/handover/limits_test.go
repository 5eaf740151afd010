package handover

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/testkit"
)

// limited is a lane of tasks with a limit.
var limited = Lane{Queue: "default", Fair: Fair{Weight: 1, Limits: "key:a"}}

// tableFor returns a table of one limit.
func tableFor(t *testing.T, text string, rule limit.Rule) *limit.Table {
	t.Helper()
	n, err := limit.ParseName(text)
	testkit.Must(t, err)
	return limit.NewTable(limit.Rules{n: rule})
}

// Tasks that wait under limits that are no more are claimed, also by a leader that never knew these limits: the claim
// finds that they have none.
func TestGrant_TakesTasksWhoseLimitsAreNoMore(t *testing.T) {
	t.Parallel()
	p := waitingIn(50)
	p.setBacklog(1, Backlog{limited: start.Add(-time.Minute)})
	p.setBacklog(2, nil)
	g, ok := p.Grant(1, false, start)
	if !ok || g.Lanes[limited].Number == 0 {
		t.Fatalf("it may claim %v, %v", g.Lanes, ok)
	}
	p.Claimed(1, g, Outcome{Found: Found{Backlog: Backlog{limited: start}}}, start)
	p.SetLimits(tableFor(t, "key:a", limit.Rule{Slots: 1}))
	if g, ok := p.Grant(1, false, start); ok {
		t.Errorf("it may claim %v before it has asked for a slot", g.Lanes)
	}
}
