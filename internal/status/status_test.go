package status_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/status"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// well is an installation that needs nobody: a node with work.
func well() status.Facts {
	return status.Facts{
		Now: now, Redis: status.Redis{Memory: 1 << 20, MaxMemory: 1 << 30},
		Nodes: []status.Node{{
			ID: "a", Alive: true, Worker: true, Leads: true, Queues: []string{"mails"}, Types: []string{"http"},
			Capacity: 4, Running: 4, LastBeat: ago(time.Second),
		}},
		Queues: []status.Queue{{Name: "mails", Waiting: 3, Oldest: ago(50 * time.Second)}},
		Last:   status.Window{Span: 5 * time.Minute, Begun: 600, Ended: 600, Failed: 10},
		Hour:   status.Window{Span: time.Hour, Ended: 6000, Failed: 100},
	}
}

// seen is what an earlier status has noticed that long ago.
func seen(key string, d time.Duration) status.Status {
	return status.Status{Seen: map[string]time.Time{key: ago(d)}}
}

// cases has, for each code, what makes an installation that is well one that needs somebody, and what nearly does.
var cases = []struct {
	code     status.Code
	severity status.Severity
	change   func(*status.Facts)
	nearly   func(*status.Facts)
}{
	{
		status.RedisSilent, status.Bad,
		func(f *status.Facts) { f.Redis.Silent = "It does not answer." },
		func(f *status.Facts) { f.Redis.RoundTrip = time.Second },
	},
	{
		status.RedisReadOnly, status.Bad,
		func(f *status.Facts) { f.Redis.Refusing = []status.Server{{Said: "READONLY"}} }, func(*status.Facts) {},
	},
	{
		status.RedisFull, status.Bad,
		func(f *status.Facts) { f.Redis.Memory = 0.91 * f.Redis.MaxMemory },
		func(f *status.Facts) { f.Redis.Memory, f.Redis.MaxMemory = 1<<40, 0 },
	},
	{
		status.RedisFilling, status.Warn,
		func(f *status.Facts) { f.Redis.Memory = 0.89 * f.Redis.MaxMemory },
		func(f *status.Facts) { f.Redis.Memory = 0.79 * f.Redis.MaxMemory },
	},
	{
		status.RedisDisk, status.Warn,
		func(f *status.Facts) { f.Redis.Disk = "rdb_last_bgsave_status is err" }, func(*status.Facts) {},
	},
	{
		status.NoLeader, status.Bad,
		func(f *status.Facts) { f.Unled, f.Before = []int{3, 4}, seen("no_leader  ", 16*time.Second) },
		func(f *status.Facts) { f.Unled, f.Before = []int{3, 4}, seen("no_leader  ", 14*time.Second) },
	},
	{
		status.NodeDied, status.Warn,
		func(f *status.Facts) {
			f.Nodes = append(f.Nodes, status.Node{ID: "b", LastBeat: ago(14 * time.Minute)})
		},
		func(f *status.Facts) {
			f.Nodes = append(f.Nodes, status.Node{ID: "b", LastBeat: ago(16 * time.Minute)})
		},
	},
	{
		status.QueueUnserved, status.Bad,
		func(f *status.Facts) { f.Nodes[0].Queues = nil },
		func(f *status.Facts) { f.Nodes[0].Queues, f.Queues[0].Foreign = nil, true },
	},
	{
		status.QueueUnserved, status.Bad,
		func(f *status.Facts) { f.Nodes[0].Draining = true },
		func(f *status.Facts) { f.Nodes[0].Draining, f.Queues[0].Oldest = true, ago(9*time.Second) },
	},
	{
		status.QueueUnserved, status.Bad,
		func(f *status.Facts) { f.Nodes[0].CordonOf = "vm" },
		func(f *status.Facts) { f.Nodes[0].CordonOf, f.Queues[0].Oldest = "vm", ago(9*time.Second) },
	},
	{
		status.QueueUnserved, status.Bad, // all of its tasks are deliveries, and since when those wait is not known
		func(f *status.Facts) {
			f.Nodes[0].Alive, f.Queues[0].Oldest = false, time.Time{}
			f.Nodes[0].LastBeat = ago(time.Hour)
			f.Before = seen("queue_unserved  mails", 11*time.Second)
		},
		func(f *status.Facts) { f.Nodes[0].Queues, f.Queues[0].Oldest = nil, time.Time{} },
	},
	{
		status.TypeUnserved, status.Bad,
		func(f *status.Facts) {
			f.Queues[0].Lanes = []status.Lane{{Type: "shell", Waiting: 1, Oldest: ago(11 * time.Second)}}
		},
		func(f *status.Facts) {
			f.Queues[0].Lanes = []status.Lane{
				{Type: "http", Waiting: 1, Oldest: ago(time.Hour)}, {Type: "shell", Waiting: 1, Oldest: ago(time.Second)},
			}
		},
	},
	{
		status.SlotsTaken, status.Bad,
		func(f *status.Facts) { f.Queues[0].Held, f.Queues[0].HeldFrom = 4, ago(3*time.Minute) },
		func(f *status.Facts) { f.Queues[0].Held, f.Queues[0].HeldFrom = 3, ago(3*time.Minute) },
	},
	{
		status.Late, status.Warn,
		func(f *status.Facts) {
			f.Queues[0].Oldest, f.Before = ago(61*time.Second), seen("late  mails", time.Minute)
		},
		func(f *status.Facts) {
			f.Queues[0].Oldest, f.Before = ago(61*time.Second), seen("late  mails", 59*time.Second)
		},
	},
	{
		status.QueuePaused, status.Warn,
		func(f *status.Facts) { f.Queues[0].Paused = true },
		func(f *status.Facts) { f.Queues[0].Paused, f.Queues[0].Waiting = true, 0 },
	},
	{
		status.PausedItself, status.Bad,
		func(f *status.Facts) { f.Schedules = []status.Schedule{{ID: "s", PausedItself: ago(time.Hour)}} },
		func(*status.Facts) {},
	},
	{
		status.TicksHeldBack, status.Bad,
		func(f *status.Facts) { f.Schedules = []status.Schedule{{ID: "s", DueTick: ago(16 * time.Second)}} },
		func(f *status.Facts) { f.Schedules = []status.Schedule{{ID: "s", DueTick: ago(14 * time.Second)}} },
	},
	{
		status.TicksMissed, status.Warn,
		func(f *status.Facts) { f.Schedules = []status.Schedule{{ID: "s", MissedAt: ago(time.Hour)}} },
		func(*status.Facts) {},
	},
	{
		status.Failing, status.Warn,
		func(f *status.Facts) { f.Schedules = []status.Schedule{{ID: "s", Failures: 2}} }, func(*status.Facts) {},
	},
	{
		status.Failing, status.Bad,
		func(f *status.Facts) { f.Schedules = []status.Schedule{{ID: "s", Failures: 3}} }, func(*status.Facts) {},
	},
	{
		status.FailuresJumped, status.Warn,
		func(f *status.Facts) { f.Last.Failed = 36 }, // 6 %, after 1.7 %
		func(f *status.Facts) { f.Last.Failed, f.Hour.Failed = 36, 200 },
	},
	{
		status.FailuresJumped, status.Bad,
		func(f *status.Facts) { f.Last.Failed, f.Hour.Failed = 300, 3000 },
		func(f *status.Facts) { f.Last.Ended, f.Last.Failed = 9, 9 },
	},
	{
		status.DoctorFound, status.Bad,
		func(f *status.Facts) { f.Doctor = status.Examination{At: ago(time.Hour), Errors: []string{"overdue"}} },
		func(f *status.Facts) {
			f.Doctor = status.Examination{At: ago(25 * time.Hour), Errors: []string{"overdue"}}
		},
	},
	{
		status.DoctorFound, status.Warn,
		func(f *status.Facts) {
			f.Doctor = status.Examination{At: ago(time.Hour), Warnings: []string{"latency"}}
		},
		func(f *status.Facts) { f.Doctor = status.Examination{At: ago(time.Hour)} },
	},
	{
		status.RedisSilent, status.Bad,
		func(f *status.Facts) { f.Redis.Denied = "it refuses a right" },
		func(f *status.Facts) { f.Redis.Refuses = true },
	},
	{
		status.SlotsTaken, status.Warn, // others still work
		func(f *status.Facts) { f.Queues[0].Held, f.Queues[0].Oldest = 3, ago(61*time.Second) },
		func(f *status.Facts) {
			f.Queues[0].Held, f.Queues[0].Oldest, f.Nodes[0].Running = 3, ago(61*time.Second), 3
		},
	},
	{
		status.SlotsTaken, status.Warn, // all that waits are deliveries, and since when those wait is not known
		func(f *status.Facts) { f.Queues[0].Held, f.Queues[0].Oldest = 3, time.Time{} },
		func(f *status.Facts) { f.Queues[0].Held, f.Queues[0].Oldest = 2, time.Time{} },
	},
	{
		status.NoNode, status.Bad,
		func(f *status.Facts) { f.Queues[0].Lanes = bound(status.Site{Select: "gpu"}, 11*time.Second) },
		func(f *status.Facts) { f.Queues[0].Lanes = bound(status.Site{Select: "gpu"}, 9*time.Second) },
	},
	{
		status.NoNode, status.Bad,
		func(f *status.Facts) { f.Queues[0].Lanes = bound(status.Site{Order: "b,c"}, time.Hour) },
		func(f *status.Facts) { f.Queues[0].Lanes = bound(status.Site{Order: "b,a"}, time.Hour) },
	},
	{
		status.NoNode, status.Bad,
		func(f *status.Facts) { f.Queues[0].Lanes = bound(status.Site{Slots: 5}, time.Hour) },
		func(f *status.Facts) {
			f.Queues[0].Lanes, f.Nodes[0].Most = bound(status.Site{Slots: 5}, time.Hour), map[string]int{"mails": 5}
		},
	},
	{
		status.LimitPaused, status.Warn,
		func(f *status.Facts) { under(f, limit.Rule{Paused: now.Add(time.Hour)}) },
		func(f *status.Facts) { under(f, limit.Rule{Paused: now.Add(59 * time.Second)}) },
	},
	{
		status.CostOverLimit, status.Bad,
		func(f *status.Facts) { under(f, limit.Rule{Slots: 4}) },
		func(f *status.Facts) { f.Limits = []status.Limit{{Name: "key:a", Rule: limit.Rule{Slots: 4}}} },
	},
}

// bound is a lane of tasks that only some nodes may run, the first of which was due that long ago.
func bound(site status.Site, d time.Duration) []status.Lane {
	return []status.Lane{{Site: site, Waiting: 1, Oldest: ago(d), First: "default:a"}}
}

// under has all tasks wait for a limit.
func under(f *status.Facts, rule limit.Rule) {
	f.Queues[0].Lanes = []status.Lane{{
		Limit: "key:a", TooDear: rule.Paused.IsZero(), Waiting: 3, Oldest: ago(time.Hour), First: "shop:order-9",
	}}
	f.Queues[0].Oldest, f.Before = ago(time.Hour), seen("late  mails", time.Hour)
	f.Limits = []status.Limit{{Name: "key:a", Rule: rule, Pauser: "ann", Note: "the disk"}}
}

// There may be as many selectors as tasks, and a status remembers something of each that it names.
func TestJudge_NamesFewOfManySelectors(t *testing.T) {
	t.Parallel()
	f := well()
	f.Queues[0].Waiting, f.Queues[0].Oldest = 100, ago(time.Hour)
	f.Before = seen("late  mails", time.Hour)
	for i := range 100 {
		lane := bound(status.Site{Select: fmt.Sprint("name=", i)}, time.Hour-time.Duration(100-i)*time.Second)
		f.Queues[0].Lanes = append(f.Queues[0].Lanes, lane...)
	}
	s := status.Judge(f)
	if len(s.Reasons) != 5 || s.Reasons[4].More != 15 || len(s.Seen) != 20 {
		t.Errorf("it remembers %d, and tells %+v", len(s.Seen), s.Reasons)
	}
	for _, r := range s.Reasons {
		if r.Code != status.NoNode || !strings.Contains(r.Detail, "a node with name=9") {
			t.Errorf("%+v is not among those that have waited longest", r)
		}
	}
}

// What waits for several reasons counts once, for what must change first.
func TestJudge_SaysWhatTasksApartWaitFor(t *testing.T) {
	t.Parallel()
	f := well()
	f.Nodes[0].Labels = func(name string) []string { return map[string][]string{"gpu": {""}}[name] }
	f.Nodes = append(f.Nodes, status.Node{
		ID: "b", Alive: true, Worker: true, Queues: []string{"mails"}, Types: []string{"http"}, CordonOf: "vm-b",
		Capacity: 1, Labels: func(string) []string { return []string{"eu"} },
	})
	due, spot := ago(time.Hour), status.Site{Select: "gpu", Order: "x", Slots: 2}
	f.Queues[0].Waiting = 15
	f.Queues[0].Lanes = []status.Lane{
		{Type: "shell", Site: spot, Limit: "key:a", Waiting: 1, Oldest: due, First: "default:a"},
		{Type: "shell", Waiting: 2, Oldest: due.Add(time.Second), First: "default:b"},
		{Type: "http", Site: spot, Limit: "key:a", Waiting: 3, Oldest: due, First: "default:c"},
		{Site: status.Site{Select: "zone=eu"}, Waiting: 1, Oldest: due, First: "default:d"},
		{
			Site: status.Site{Select: "gpu"}, Limit: "key:a", TooDear: true, Waiting: 4, Oldest: due.Add(time.Second),
			First: "default:e",
		},
		{Limit: "key:a", TooDear: true, Waiting: 3, Oldest: due, First: "shop:f"},
		{Limit: "key:b", Waiting: 1, Oldest: due, First: "shop:g"},
	}
	f.Limits = []status.Limit{
		{Name: "key:a", Rule: limit.Rule{Slots: 4}},
		{Name: "key:b", Rule: limit.Rule{Paused: now.Add(time.Hour)}, Pauser: "ann", Note: "the disk"},
	}
	want := []string{
		`3 tasks wait of the type "shell" in the queue "mails", and no living node of the queue runs it. ` +
			"Start a worker that runs the type and serves the queue.",
		`1 task waits in the queue "mails" for a node with zone=eu. No living node of the queue is such a node. ` +
			"Nodes that could, and are cordoned: 1. Uncordon vm-b (dtsctl node uncordon vm-b), or start another worker.",
		`3 tasks wait in the queue "mails" for one of the nodes x with gpu and 2 slots. No living node of the queue is ` +
			"such a node. Start such a node, or change where they may run. " +
			"See what one of them needs: dtsctl -n default task why c.",
		"7 tasks wait that cost more than the limit key:a has: 4 at once. They can never start. " +
			"Raise the limit, or lower their cost. See what one of them needs: dtsctl -n shop task why f.",
		"1 task waits for the limit key:b, which is paused by ann until 2026-01-02T04:04:05Z: the disk. " +
			"Wait, or resume it: dtsctl limit resume 'key:b'.",
	}
	var got []string
	for _, r := range status.Judge(f).Reasons {
		got = append(got, r.Detail+" "+r.Do)
	}
	slices.Sort(got[1:3])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestJudge_GivesEachReason(t *testing.T) {
	t.Parallel()
	for i, c := range cases {
		f := well()
		c.change(&f)
		got := status.Judge(f).Reasons
		if len(got) != 1 || got[0].Code != c.code || got[0].Severity != c.severity || got[0].Detail == "" || got[0].Do == "" {
			t.Errorf("case %d, %s: got %+v", i, c.code, got)
		}
		f = well()
		c.nearly(&f)
		if got := status.Judge(f); len(got.Reasons) > 0 || got.Level != status.AllWell {
			t.Errorf("case %d, nearly %s: got %+v", i, c.code, got.Reasons)
		}
	}
	for _, m := range status.Codes {
		if !slices.ContainsFunc(cases, func(c struct {
			code           status.Code
			severity       status.Severity
			change, nearly func(*status.Facts)
		}) bool {
			return c.code == m.Code
		}) {
			t.Errorf("no case gives %s", m.Code)
		}
	}
}

// Whatever is wrong at the same time, each thing is named, the worst first, and mending all of it makes it well again.
func TestJudge_NamesAllThatIsWrong(t *testing.T) {
	t.Parallel()
	independent := []int{1, 2, 4, 6, 12, 18, 21} // cases that change different facts
	for bits := range 1 << len(independent) {
		f, want, bad := well(), []string{}, 0
		for i, at := range independent {
			if bits&(1<<i) != 0 {
				cases[at].change(&f)
				want = append(want, string(cases[at].code))
				if cases[at].severity == status.Bad {
					bad++
				}
			}
		}
		s, got := status.Judge(f), []string{}
		for i, r := range s.Reasons {
			got = append(got, string(r.Code))
			if (i < bad) != (r.Severity == status.Bad) {
				t.Errorf("%v: reason %d is %s, and %d are bad", want, i, r.Severity, bad)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		level := status.AllWell
		if bad > 0 {
			level = status.Trouble
		} else if len(want) > 0 {
			level = status.Attention
		}
		if s.Level != level {
			t.Errorf("%v: level %s, want %s", want, s.Level, level)
		}
	}
}

// The time of a condition goes on from one status to the next, and begins anew once the condition ended.
func TestJudge_RemembersSinceWhen(t *testing.T) {
	t.Parallel()
	f := well()
	f.Unled = []int{1}
	first := status.Judge(f)
	f.Before, f.Now = first, f.Now.Add(20*time.Second)
	f.Unled = []int{1, 2}
	second := status.Judge(f)
	if len(first.Reasons) != 0 || len(second.Reasons) != 1 || !second.Reasons[0].Since.Equal(now) {
		t.Errorf("first %+v, then %+v", first.Reasons, second.Reasons)
	}
	f.Before, f.Unled = second, nil
	f.Before = status.Judge(f)
	f.Unled = []int{1}
	if again := status.Judge(f); len(again.Reasons) != 0 {
		t.Errorf("after it had ended: %+v", again.Reasons)
	}
}

func TestWorstSchedules_LeavesOutTheLeast(t *testing.T) {
	t.Parallel()
	missed, failing := status.Schedule{ID: "missed", MissedAt: now}, status.Schedule{ID: "failing", Failures: 2}
	worse, late := status.Schedule{ID: "worse", Failures: 9}, status.Schedule{ID: "late", DueTick: now, Failures: 1}
	paused := status.Schedule{ID: "paused", PausedItself: now}
	all := []status.Schedule{missed, failing, worse, late, paused}
	want := []status.Schedule{paused, late, worse, failing}
	if got := status.WorstSchedules(all, 4); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The servers of a cluster fail one by one, and each has some partitions.
func TestJudge_NamesTheServers(t *testing.T) {
	t.Parallel()
	f := well()
	f.Redis.Away = []status.Server{
		{Address: "a:1", Partitions: []int{0}, Since: ago(time.Minute)},
		{Address: "b:1", Said: "LOADING", Partitions: []int{1, 2}},
	}
	f.Redis.Refusing = []status.Server{{Address: "c:1", Said: "READONLY"}}
	f.Before = seen("redis_read_only  c:1", time.Hour)
	want := []string{
		"b:1: The server b:1 of Redis turns nodes away: LOADING. " +
			"What else needs somebody in its partitions 1,2 is not known.",
		"a:1: The server a:1 of Redis does not answer. What else needs somebody in its partition 0 is not known.",
		"c:1: The server c:1 of Redis refuses writes, so nothing begins there and nothing is accepted. It says: READONLY.",
	}
	var got []string
	reasons := status.Judge(f).Reasons
	for _, r := range reasons {
		got = append(got, r.ID+": "+r.Detail)
	}
	if !slices.Equal(got, want) || !reasons[1].Since.Equal(ago(time.Minute)) || !reasons[2].Since.Equal(ago(time.Hour)) {
		t.Errorf("got %+v, want %q", reasons, want)
	}
}

// The status does not know why tasks wait, and does not claim to.
func TestJudge_SaysOfLatenessWhatItKnows(t *testing.T) {
	t.Parallel()
	f := well()
	f.Queues[0].Oldest, f.Before = ago(61*time.Second), seen("late  mails", time.Minute)
	f.Nodes[0].Running = 1
	got := status.Judge(f).Reasons
	const want = `3 tasks wait in the queue "mails", the first of them for 61 s. Of the 4 slots of the queue, in use: 1.`
	if len(got) != 1 || got[0].Detail != want {
		t.Errorf("got %+v, want %s", got, want)
	}
}

// As many runs are looked at as is bounded.
func TestJudge_SaysAtLeastHowManySlotsAreHeld(t *testing.T) {
	t.Parallel()
	f := well()
	f.Nodes[0].Capacity, f.Queues[0].Held, f.Queues[0].HeldMore = 1000, 300, true
	got := status.Judge(f).Reasons
	const want = "at least 300 of 1000 slots"
	if len(got) != 1 || got[0].Code != status.SlotsTaken || !strings.Contains(got[0].Detail, want) {
		t.Errorf("got %+v", got)
	}
}

// Tasks may have waited before the last node that served them died, and may have come long after.
func TestJudge_TellsSinceWhenNobodyServes(t *testing.T) {
	t.Parallel()
	dead := func(d time.Duration) status.Node {
		return status.Node{ID: "gone", Worker: true, Queues: []string{"mails"}, Capacity: 1, LastBeat: ago(d)}
	}
	shell := []status.Lane{{Type: "shell", Waiting: 1, Oldest: ago(20 * time.Second)}}
	for _, c := range []struct {
		name   string
		lanes  []status.Lane
		nodes  []status.Node
		before status.Status
		want   time.Time
	}{
		{"nobody has served it", nil, nil, status.Status{}, now},
		{"an earlier status has seen that", nil, nil, seen("queue_unserved  mails", time.Hour), ago(time.Hour)},
		{"nodes have died", nil, []status.Node{dead(50 * time.Minute), dead(30 * time.Minute)}, status.Status{},
			ago(30 * time.Minute)},
		{"a node has died and is forgotten", nil, nil, seen("queue_unserved  mails", 2*time.Hour), ago(2 * time.Hour)},
		{"nobody has run the type", shell, well().Nodes, status.Status{}, now},
		{"a node that ran the type has died", shell, append(well().Nodes, dead(30*time.Minute)), status.Status{},
			ago(30 * time.Minute)},
		{"an earlier status has seen the type", shell, well().Nodes, seen("type_unserved  mails shell", time.Hour),
			ago(time.Hour)},
	} {
		f := well()
		f.Nodes, f.Before, f.Queues[0].Lanes = c.nodes, c.before, c.lanes
		reasons := slices.DeleteFunc(status.Judge(f).Reasons, func(r status.Reason) bool { return r.Code == status.NodeDied })
		if len(reasons) != 1 || !reasons[0].Since.Equal(c.want) {
			t.Errorf("%s: got %+v, want since %s", c.name, reasons, c.want)
		}
	}
}

// What could not be read once may still hold: its time goes on, but not for long.
func TestJudge_RemembersWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unread []string
		later  time.Duration
		shown  int
	}{{[]string{"the list of nodes cannot be read"}, 30 * time.Second, 1}, {nil, 30 * time.Second, 0},
		{[]string{"the list of nodes cannot be read"}, 2 * time.Minute, 0}} {
		f := well()
		f.Unled = []int{1}
		first := status.Judge(f)
		f.Before, f.Unled, f.Unread, f.Now = first, nil, c.unread, now.Add(c.later)
		second := status.Judge(f)
		f.Before, f.Unled, f.Unread, f.Now = second, []int{1}, nil, f.Now.Add(time.Second)
		if got := status.Judge(f).Reasons; len(second.Reasons) > 0 || len(got) != c.shown {
			t.Errorf("%v, after %s: %+v, then %+v", c.unread, c.later, second.Reasons, got)
		}
	}
}

func TestJudge_ShowsFewReasonsOfACode(t *testing.T) {
	t.Parallel()
	f := well()
	for i := range 12 {
		since := ago(time.Duration(i) * time.Hour)
		f.Schedules = append(f.Schedules, status.Schedule{ID: fmt.Sprint("s", i), PausedItself: since})
	}
	s := status.Judge(f)
	if len(s.Reasons) != 5 || s.Reasons[0].ID != "s11" || s.Reasons[4].More != 7 || s.Reasons[3].More != 0 {
		t.Errorf("got %+v", s.Reasons)
	}
	if s.Sentence != "12 things need somebody now." {
		t.Errorf("sentence: %s", s.Sentence)
	}
}

func TestJudge_SaysSentences(t *testing.T) {
	t.Parallel()
	for want, changes := range map[string][]int{
		"All well: 1 node lives, 4 slots are taken, 3 tasks wait.":    {},
		"One thing is worth a look.":                                  {3},
		"2 things are worth a look.":                                  {3, 6},
		"One thing needs somebody now.":                               {1},
		"One thing needs somebody now, and one more is worth a look.": {1, 3},
		"One thing needs somebody now, and 2 more are worth a look.":  {1, 3, 6},
		"2 things need somebody now.":                                 {1, 2},
		"2 things need somebody now, and one more is worth a look.":   {1, 2, 6},
	} {
		f := well()
		for _, i := range changes {
			cases[i].change(&f)
		}
		if got := status.Judge(f).Sentence; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCodes_AreDocumentedInOrder(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := ""
	for _, m := range status.Codes {
		rows += fmt.Sprintf("| `%s` | %s |\n", m.Code, m.Text)
	}
	if !strings.Contains(string(page), rows) {
		t.Errorf("docs/status.md does not have these rows:\n%s", rows)
	}
}

func TestStatus_UnservedIsNotOlderThanTheLastServer(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 40, 0, 0, time.UTC)
	a := status.Node{ID: "a", Worker: true, Capacity: 1, Queues: []string{"mails"}, LastBeat: now.Add(-40 * time.Minute)}
	b := status.Node{ID: "b", Alive: true, Worker: true, Capacity: 1, Queues: []string{"mails"}, LastBeat: now}
	q := status.Queue{Name: "mails", Waiting: 1, Oldest: now.Add(-time.Minute)}
	before := status.Judge(status.Facts{
		Now: now.Add(-2 * time.Minute), Nodes: []status.Node{a, b}, Queues: []status.Queue{q},
	})
	b.Queues = nil
	s := status.Judge(status.Facts{Now: now, Before: before, Nodes: []status.Node{a, b}, Queues: []status.Queue{q}})
	i := slices.IndexFunc(s.Reasons, func(r status.Reason) bool { return r.Code == status.QueueUnserved })
	if i < 0 || s.Reasons[i].Since.Before(now.Add(-3*time.Minute)) {
		t.Errorf("node b served it two minutes ago: %+v", s.Reasons)
	}
}

// A cordoned node has no free slots: it only ends what it runs.
func TestJudge_CountsNoFreeSlotsOfCordonedNodes(t *testing.T) {
	t.Parallel()
	f := well()
	f.Nodes[0].Capacity, f.Nodes[0].Running, f.Nodes[0].CordonOf = 8, 3, "vm"
	if got := status.Judge(f).Figures; got.Capacity != 3 || got.Running != 3 {
		t.Errorf("%d of %d slots are in use, want 3 of 3", got.Running, got.Capacity)
	}
}
