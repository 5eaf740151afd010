package partition_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// twins are two Redis with the same tasks. The claims of one look at all names, those of the other know them.
type twins struct {
	t     *testing.T
	r     *rand.Rand
	w     [2]*storetest.World
	knows handover.Backlog // what the leader of the second one knows
	next  int
}

var twinQueues, twinTypes = []string{"default", "a", "b"}, []string{"t", "u", "v"}

// create creates tasks that have been due for as long in both, all for more than the second after which a leader is
// behind: the two claim at different times, and must agree whether it is.
func (w *twins) create(n int) {
	at := w.w[0].DB.Time(w.w[0].Ctx).Val()
	for range n {
		d := task.Definition{
			Ref: sibling(w.next), Type: twinTypes[w.r.IntN(3)], Queue: twinQueues[w.r.IntN(3)], Delay: time.Hour,
		}
		w.next++
		since := at.Add(-10*time.Second - time.Duration(w.r.IntN(3000))*time.Millisecond)
		due := redis.Z{Score: float64(since.UnixMilli()), Member: d.Ref.String()}
		for _, world := range w.w {
			world.Create(d)
			testkit.Must(w.t, world.DB.ZAddXX(world.Ctx, string(world.KeysOf(d.Ref).Wheel()), due).Err())
		}
	}
}

// grant makes up what a claim may take. A claim takes the lanes with the least quotas first, and equal ones in random
// order, so no two are equal.
func (w *twins) grant(served string) handover.Grant {
	g := handover.Grant{Lanes: make(handover.Quotas), Default: 3, Served: served}
	given := make(map[int]bool)
	for _, queue := range twinQueues {
		for _, taskType := range append(twinTypes, "") {
			if w.r.IntN(3) == 0 {
				number := w.r.IntN(6)
				if given[number] {
					number = 0
				}
				given[number] = true
				g.Lanes[handover.Lane{Queue: queue, Type: taskType}] = handover.Quota{Number: number}
			}
		}
	}
	return g
}

// claim claims in both, and compares what came of it.
func (w *twins) claim(g handover.Grant, known bool) {
	var found [2]handover.Backlog
	var taken [2][]string
	for i, world := range w.w {
		g.Known = known && i == 1
		claimed, err := world.Leader(sibling(0)).Claim(world.Ctx, 20, g, time.Hour)
		testkit.Must(w.t, err)
		for _, d := range claimed.Deliveries {
			taken[i] = append(taken[i], d.String())
			lane := handover.LaneOf(d)
			if _, planned := g.Lanes[lane]; !planned {
				lane.Type = ""
			}
			if quota, planned := g.Lanes[lane]; planned && quota.Number == 0 {
				w.t.Errorf("%s was claimed, and nothing of %v may be", d.Ref, lane)
			}
		}
		slices.Sort(taken[i])
		found[i] = claimed.Backlog
		if i == 1 && !known {
			w.knows = claimed.Backlog
		}
	}
	if known {
		for lane, quota := range g.Lanes {
			if _, waits := found[1][lane]; !waits && quota.Number > 0 {
				delete(w.knows, lane)
			}
		}
		for lane, at := range found[1] {
			if w.knows[lane] = at; !at.Equal(found[0][lane]) {
				w.t.Errorf("the first task of %v was due at %s, and is said to have been at %s", lane, found[0][lane], at)
			}
		}
	}
	lanes := func(b handover.Backlog) (all []string) {
		for lane := range b {
			all = append(all, lua.LaneName(lane.Queue, lane.Type))
		}
		slices.Sort(all)
		return all
	}
	for what, diff := range map[string]string{
		"claimed": cmp.Diff(taken[0], taken[1]), "known": cmp.Diff(lanes(found[0]), lanes(w.knows)),
		"in Redis": cmp.Diff(w.ready(0), w.ready(1)),
	} {
		if diff != "" {
			w.t.Fatalf("%s (-by a claim that looks at all names +by one that knows them):\n%s", what, diff)
		}
	}
}

// ready has what waits in one of the twins, by key.
func (w *twins) ready(i int) map[string][]string {
	world, all := w.w[i], make(map[string][]string)
	k := world.KeysOf(sibling(0))
	for _, key := range world.DB.Keys(world.Ctx, strings.TrimSuffix(string(k.Backlog()), "backlog")+"ready:*").Val() {
		all[key] = world.DB.ZRange(world.Ctx, key, 0, -1).Val()
	}
	all["backlog"] = world.DB.SMembers(world.Ctx, string(k.Backlog())).Val()
	slices.Sort(all["backlog"])
	all["wheel"] = world.DB.ZRange(world.Ctx, string(k.Wheel()), 0, -1).Val()
	return all
}

// A leader that knows which lanes wait claims the same tasks as one that reads all names, and goes on knowing them.
func TestClaim_OfKnownLanesDecidesAsOneThatLooks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &twins{t: t, r: rand.New(rand.NewPCG(seed, 0)), w: [2]*storetest.World{storetest.New(t), storetest.New(t)}}
			served := lua.ServedText([]lua.Offer{
				{Queues: []string{"default"}, Types: []string{"t", "u"}}, {Queues: []string{"a"}, Types: []string{lua.AllTypes}},
			})
			w.create(30)
			w.claim(w.grant(served), false)
			for range 40 {
				w.create(w.r.IntN(8))
				w.claim(w.grant(served), true)
			}
		})
	}
}

// A name that a repair has listed is found when a task of it is due, and by a claim that looks at all names.
func TestClaim_OfKnownLanesFindsRepairedOnes(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	none := handover.Grant{Lanes: handover.Quotas{{Queue: "a"}: {}}}
	w.Create(task.Definition{Ref: sibling(0), Queue: "a"})
	claim := func(g handover.Grant) handover.Backlog {
		claimed, err := w.Leader(sibling(0)).Claim(w.Ctx, 20, g, time.Hour)
		testkit.Must(t, err)
		return claimed.Backlog
	}
	claim(none)
	w.Create(task.Definition{Ref: sibling(1), Queue: "a"})
	known := none
	known.Known = true
	if at, found := claim(known)[handover.Lane{Queue: "a"}]; !found || !at.IsZero() {
		t.Errorf("the lane of a due task waits: %t, since %s", found, at)
	}
	if found := claim(known); len(found) > 0 {
		t.Errorf("without a due task, a claim has looked at %v", found)
	}
	if found := claim(none); len(found) != 1 {
		t.Errorf("a claim that looks at all names has found %v", found)
	}
}

// What a claim of 64 due tasks costs while so many lanes wait without room, in commands and in time of Redis.
func BenchmarkClaim(b *testing.B) {
	for _, lanes := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("lanes=", lanes), func(b *testing.B) {
			w := storetest.New(b)
			g := handover.Grant{Lanes: make(handover.Quotas), Default: 1000}
			for i := range lanes {
				lane := handover.Lane{Queue: "default", Type: fmt.Sprint("type-", i)}
				g.Lanes[lane] = handover.Quota{}
				w.Create(task.Definition{Ref: sibling(i), Type: lane.Type})
			}
			next := lanes
			claim := func(want int) {
				claimed, err := w.Leader(sibling(0)).Claim(w.Ctx, handover.ClaimLimit, g, time.Hour)
				if testkit.Must(b, err); want >= 0 && len(claimed.Deliveries) != want {
					b.Fatalf("%d tasks were claimed, want %d", len(claimed.Deliveries), want)
				}
			}
			for range lanes/handover.ClaimLimit + 1 {
				claim(-1)
			}
			g.Known = true
			commands, spent := 0.0, 0.0
			for b.Loop() {
				defs := make([]task.Definition, 64)
				for i := range defs {
					defs[i] = task.Definition{Ref: sibling(next), Type: "http"}.Normalize()
					next++
				}
				for _, c := range w.Tasks.Create(w.Ctx, defs) {
					testkit.Must(b, c.Err)
				}
				testkit.Must(b, w.DB.ConfigResetStat(w.Ctx).Err())
				claim(64)
				for _, line := range strings.Split(w.DB.Info(w.Ctx, "commandstats").Val(), "\n") {
					var calls, usec float64
					name, figures, _ := strings.Cut(line, ":")
					if _, err := fmt.Sscanf(figures, "calls=%g,usec=%g,", &calls, &usec); err != nil {
						continue
					}
					if commands += calls; strings.Contains(name, "evalsha") {
						spent += usec
					}
				}
			}
			b.ReportMetric(commands/float64(b.N), "commands/claim")
			b.ReportMetric(spent/float64(b.N), "redis-us/claim")
		})
	}
}
