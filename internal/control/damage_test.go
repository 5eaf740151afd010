package control_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/locks"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

// owned is what a key of a kind belongs to in a ward, if that is one thing.
func owned(kind contract.Kind) task.Ref {
	switch {
	case slices.Contains(storetest.OfSchedules, kind.Name):
		return storetest.Nightly
	case kind.Name == "lock":
		return ref("lock")
	case kind.Name == "ready":
		return ref("ready")
	}
	return ref("waiting")
}

// spoil gives the key of a kind another type, and returns it and the other partition.
func (w *ward) spoil(kind contract.Kind) (key string, other int) {
	w.t.Helper()
	p := w.PartitionOf(owned(kind))
	key = storetest.KeyOf(w.t, kind, p, owned(kind).String())
	storetest.Spoil(w.t, w.DB, kind, key)
	return key, 1 - p
}

// aside are the keys that were put aside.
func (w *ward) aside() []string {
	w.t.Helper()
	keys, err := w.DB.Keys(w.Ctx, "*aside:*").Result()
	testkit.Must(w.t, err)
	return keys
}

// Whatever kind of key has the wrong type: doctor goes on with all the rest, names it and, told so, puts it aside.
func TestExamine_PutsEveryKindOfKeyAside(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for _, kind := range storetest.Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			key, other := w.spoil(kind)
			w.do("HSET", w.Keys.Partition(other).Results(), "default:ghost", "x")
			results := w.examine(control.DoctorRequest{})
			typed := results["key-type"]
			named := slices.ContainsFunc(typed.Examples, func(e string) bool { return strings.HasPrefix(e, key+" is a ") })
			if typed.Severity != doctor.Error || !named {
				t.Errorf("key-type found %v", typed.Examples)
			}
			ofPartition := kind.InPartition() || kind.InAsynqQueue()
			if left := results["task-lost"]; ofPartition && !slices.ContainsFunc(left.Examples, func(e string) bool {
				return strings.HasPrefix(e, "default:ghost does not exist")
			}) {
				t.Errorf("in the other partition, it found %v", left.Examples)
			}
			if kind.Name != "held" {
				w.Lapse(ref("running")) // its worker has died
			}
			w.examine(control.DoctorRequest{Checks: []string{"key-type"}, Repair: true})
			kept := w.aside()
			if len(kept) != 1 || w.DB.TTL(w.Ctx, kept[0]).Val() < task.AsideKept-time.Hour {
				t.Fatalf("aside are %q", kept)
			}
			if found := w.examine(control.DoctorRequest{Checks: []string{"key-type"}})["key-type"]; found.Found > 0 {
				t.Errorf("after the repair, it finds %v", found.Examples)
			}
			w.examine(control.DoctorRequest{Repair: true})
			for name, r := range w.examine(control.DoctorRequest{}) {
				// what was there is lost
				byHand := []string{"payload-lost", "schedule-unreadable", "delivery-missing", "ledger-holes"}
				if r.OfData && r.Found > 0 && !slices.Contains(byHand, name) {
					t.Errorf("after all repairs, %s finds %v", name, r.Examples)
				}
			}
		})
	}
}

// A look at one partition does not go over all keys. It finds those that each partition has; a check that needs another
// one says that it has passed over it.
func TestExamine_NamesDamagedKeysOfOnePartition(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	p := w.PartitionOf(storetest.Nightly)
	ledger := w.KeysOf(storetest.Nightly).Ledger(storetest.Nightly)
	w.do("RENAME", ledger, "kept")
	w.do("SET", ledger, "x")
	holes := w.examine(control.DoctorRequest{Partition: &p})["ledger-holes"]
	if holes.Severity == doctor.OK || !strings.Contains(holes.PassedOver, "default:nightly was not looked at") {
		t.Errorf("of a ledger, it says %s, %q", holes.Severity, holes.PassedOver)
	}
	w.do("RENAME", "kept", ledger)
	order := string(w.Keys.Partition(p).RememberedOrder())
	w.do("SET", order, "x")
	keys := w.examine(control.DoctorRequest{Partition: &p})["key-type"]
	if keys.Found != 1 || !strings.HasPrefix(keys.Examples[0], order+" is a string") {
		t.Errorf("of a key of the partition, it found %q", keys.Examples)
	}
}

// afterTypes does something once the types of keys were read, or then that of the one that is put aside.
type afterTypes struct{ do, then func() }

func (a *afterTypes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *afterTypes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if then := a.then; cmd.Name() == "type" && then != nil {
			a.then = nil
			then()
		}
		return err
	}
}

func (a *afterTypes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if do := a.do; cmds[0].Name() == "type" && do != nil {
			a.do = nil
			do()
		}
		return err
	}
}

// Several repairs may run at once: none of them fails as another one was faster.
func TestExamine_RepairsBesideAnotherRepair(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change []any // what becomes of the key meanwhile
		aside  int
	}{
		"put aside": {[]any{"DEL"}, 0}, "changed": {[]any{"APPEND", "y"}, 1},
	} {
		w := newWard(t)
		w.do("SET", w.Keys.Limits(), "x")
		args := append([]any{c.change[0], w.Keys.Limits()}, c.change[1:]...)
		w.DB.AddHook(&afterTypes{then: func() { w.do(args...) }})
		w.examine(control.DoctorRequest{Checks: []string{"key-type"}, Repair: true})
		if aside, left := w.aside(), w.DB.Exists(w.Ctx, string(w.Keys.Limits())).Val(); len(aside) != c.aside || left != 0 {
			t.Errorf("%s: aside is %q, and there are %d limits", name, aside, left)
		}
	}
}

// Somebody has just put the key right by hand.
func TestExamine_LeavesAKeyThatIsRightByNow(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do("SET", w.Keys.Limits(), "x")
	w.DB.AddHook(&afterTypes{do: func() {
		w.do("DEL", w.Keys.Limits())
		w.do("HSET", w.Keys.Limits(), "low", 5)
	}})
	w.examine(control.DoctorRequest{Checks: []string{"key-type"}, Repair: true})
	if got := w.DB.HGet(w.Ctx, string(w.Keys.Limits()), "low").Val(); got != "5" || len(w.aside()) > 0 {
		t.Errorf("the limit is %q, and aside is %q", got, w.aside())
	}
}

// meanwhile does something once, before a script of that name runs.
type meanwhile struct {
	script string
	do     func()
}

func (m *meanwhile) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meanwhile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		hash := redis.NewScript(lua.ByName(m.script).Source).Hash()
		if do := m.do; do != nil && cmd.Name() == "evalsha" && args[1] == hash {
			m.do = nil
			do()
		}
		return next(ctx, cmd)
	}
}

func (m *meanwhile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Somebody has replaced a value just before the repair, by one that can be read.
func TestExamine_LeavesAnEntryThatIsGoodByNow(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do("HSET", w.Keys.Limits(), "low", "garbage")
	w.DB.AddHook(&meanwhile{"move_field", func() { w.do("HSET", w.Keys.Limits(), "low", 5) }})
	r := w.examine(control.DoctorRequest{Checks: []string{"entry-unreadable"}, Repair: true})["entry-unreadable"]
	got := w.DB.HGet(w.Ctx, string(w.Keys.Limits()), "low").Val()
	if got != "5" || r.Found > 0 || r.Repaired > 0 || len(w.aside()) > 0 {
		t.Errorf("the limit is %q, found %d, repaired %d, and aside is %q", got, r.Found, r.Repaired, w.aside())
	}
}

// Somebody has put, or resumed, a schedule just before the repair, so that it can be read.
func TestExamine_LeavesAScheduleThatIsGoodByNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field, broken string
		revision      int
	}{"put": {"def", `{"rules":[{"cron":"x"}]}`, 4}, "resumed": {"paused", "x", 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			w.change(2)
			often := ref("often")
			key := string(w.KeysOf(often).Schedule(often))
			good := w.DB.HGet(w.Ctx, key, c.field).Val()
			w.do("HSET", key, c.field, c.broken)
			w.DB.AddHook(&meanwhile{"examine_schedules", func() {
				w.do("HSET", key, c.field, good, "revision", c.revision)
				if good == "" {
					w.do("HDEL", key, c.field)
				}
			}})
			r := w.examine(control.DoctorRequest{Checks: []string{"schedule-unreadable"}, Repair: true})["schedule-unreadable"]
			if s := w.Schedule(often); s.Revision != c.revision || !s.PausedAt.IsZero() || r.Repaired > 0 || len(w.aside()) > 0 {
				t.Errorf("it is %+v, repaired %d, and aside is %q", s, r.Repaired, w.aside())
			}
		})
	}
}

// What is read together with something that is damaged is looked at all the same.
func TestExamine_LooksBesideADamagedKey(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	lock := ref("lock")
	beside := lock
	for i := 0; beside == lock || w.PartitionOf(beside) != w.PartitionOf(lock); i++ {
		beside = ref(fmt.Sprint("lock", i))
	}
	_, err := w.Locks.Acquire(w.Ctx, locks.Lock{Ref: beside, Holder: "me", TTL: time.Hour})
	testkit.Must(t, err)
	w.do("PERSIST", w.KeysOf(beside).Lock(beside))
	w.do("SET", w.KeysOf(lock).Lock(lock), "x")
	if got := w.examine(control.DoctorRequest{})["lock-unlimited"]; got.Found == 0 ||
		!strings.HasPrefix(got.Examples[0], beside.String()) {
		t.Errorf("it found %v", got.Examples)
	}
}

// Whatever key has the wrong type: a check finds what it would find, or says that it has passed over something.
func TestExamine_IsNotOKOfWhatItHasNotSeen(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for _, b := range testkit.Sample(t, 8, breakages) {
		t.Run(b.check+"/"+b.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			b.damage(w)
			keys, err := w.DB.Keys(w.Ctx, "*").Result()
			testkit.Must(t, err)
			slices.Sort(keys)
			for _, key := range keys {
				w.whileOfWrongType(key, func() {
					r := w.examine(control.DoctorRequest{Checks: []string{b.check}})[b.check]
					if r.Severity == doctor.OK || r.Found == 0 && r.PassedOver == "" {
						t.Errorf("as %s has the wrong type: %s, looked at %d", key, r.Severity, r.Looked)
					}
				})
			}
		})
	}
}

// whileOfWrongType calls do while a key has another type.
func (w *ward) whileOfWrongType(key string, do func()) {
	w.t.Helper()
	before, err := w.DB.Dump(w.Ctx, key).Result()
	testkit.Must(w.t, err)
	kind, ttl := w.DB.Type(w.Ctx, key).Val(), max(0, w.DB.PTTL(w.Ctx, key).Val())
	w.do("DEL", key)
	if kind == "string" {
		w.do("RPUSH", key, "garbage")
	} else {
		w.do("SET", key, "garbage")
	}
	do()
	testkit.Must(w.t, w.DB.RestoreReplace(w.Ctx, key, ttl, before).Err())
}

// unseen is damage because of which a check cannot look at something, and how the check says so.
var unseen = []struct {
	checks []string // asked for alone, one after the other
	damage func(w *ward)
	says   string
}{
	{[]string{"task-unreadable", "index-drift", "scheduled-lost", "payload-lost"}, func(w *ward) {
		w.do("HSET", w.KeysOf(ref("waiting")).Defs(), ref("waiting"), "garbage")
		w.do("DEL", w.KeysOf(ref("waiting")).States())
		w.do("SET", w.KeysOf(ref("waiting")).States(), "x")
	}, "default:"},
	{[]string{"scheduled-lost", "payload-lost"}, func(w *ward) {
		w.do("HSET", w.KeysOf(ref("waiting")).Defs(), ref("waiting"), "garbage")
	}, "default:waiting was not looked at: it cannot be read"},
	{[]string{"lock-unlimited"}, func(w *ward) {
		for i := range 100 {
			lock := ref(fmt.Sprint("broken-", i))
			w.do("SET", w.KeysOf(lock).Lock(lock), "x")
			w.do("ZADD", w.KeysOf(lock).Locks(), 1, lock)
		}
	}, "locks in partition "},
	{[]string{"lock-drift", "lock-unlimited"}, func(w *ward) {
		w.do("HDEL", w.KeysOf(ref("lock")).Lock(ref("lock")), "ttl")
	}, "default:lock was not looked at: it cannot be read"},
	{[]string{"schedule-drift", "schedule-not-looked-at", "ledger-holes"}, func(w *ward) {
		w.do("DEL", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly))
	}, "default:nightly was not looked at: it"},
	{[]string{"ledger-holes", "schedule-not-looked-at"}, func(w *ward) {
		w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "def", "{")
	}, "default:nightly was not looked at: "},
	{[]string{"schedule-held-back"}, func(w *ward) {
		w.do("HSET", w.Keys.Limits(), "full", "many")
	}, `the limit "many" of queue "full" is left out`},
	{[]string{"delivery-missing"}, func(w *ward) {
		w.do("HSET", w.KeysOf(ref("queued")).States(), ref("queued"), "lost")
	}, `default:queued was not looked at: its state "lost" cannot be read`},
	{[]string{"overdue"}, func(w *ward) {
		w.do("DEL", w.KeysOf(ref("waiting")).Wheel())
		w.do("SET", w.KeysOf(ref("waiting")).Wheel(), "x")
	}, "the key dts:{1}:wheel of partition 1 has the wrong type"},
	{[]string{"unserved-queues"}, func(w *ward) {
		w.do("DEL", w.KeysOf(ref("ready")).Ready("full"))
		w.do("SET", w.KeysOf(ref("ready")).Ready("full"), "x")
	}, "has the wrong type"},
	{[]string{"backlog-unlisted", "task-leftovers"}, func(w *ward) {
		w.do("DEL", w.KeysOf(ref("ready")).Backlog())
		w.do("SET", w.KeysOf(ref("ready")).Backlog(), "x")
	}, ""},
}

func TestExamine_SaysWhatItHasPassedOver(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	for _, c := range unseen {
		w := newWard(t)
		c.damage(w)
		for _, check := range c.checks {
			for _, also := range [][]string{nil, {"key-type"}} { // which finds a key, or does not
				r := w.examine(control.DoctorRequest{Checks: append(also, check)})[check]
				said := strings.Contains(r.PassedOver, c.says) && r.PassedOver != ""
				if !said || r.Severity == doctor.OK || r.Found == 0 && r.Severity != doctor.Unknown {
					t.Errorf("%s says %s, %q, and found %q", check, r.Severity, r.PassedOver, r.Examples)
				}
			}
		}
	}
}

// Whatever has a key of the wrong type, it is found once, as a key of a partition and as one of a server.
func TestExamine_FindsEachKeyOnce(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	for _, key := range []any{w.Keys.Limits(), w.Keys.Partition(0).States(), w.Keys.Partition(1).States()} {
		w.do("DEL", key)
		w.do("SET", key, "x")
	}
	w.do("DEL", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly))
	results := w.examine(control.DoctorRequest{Checks: []string{"key-type", "schedule-unreadable"}})
	if r := results["key-type"]; r.Found != 3 {
		t.Errorf("key-type found %d: %q", r.Found, r.Examples)
	}
	if r := results["schedule-unreadable"]; r.Found != 1 {
		t.Errorf("schedule-unreadable found %d: %q", r.Found, r.Examples)
	}
}

// What belongs to one task or schedule can be cancelled, paused and deleted though a key of it is damaged, or a clear
// error says why not.
func TestControl_SaysClearlyWhatIsDamaged(t *testing.T) {
	t.Parallel()
	for _, kind := range storetest.Kinds() {
		ofTask, ofSchedule := slices.Contains(storetest.OfTasks, kind.Name), slices.Contains(storetest.OfSchedules, kind.Name)
		if !ofTask && !ofSchedule && kind.Name != "ready" && kind.Name != "index" {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			live := w.DB.ZRange(w.Ctx, string(w.KeysOf(storetest.Nightly).Live(storetest.Nightly)), 0, 0).Val()
			w.EndTick(storetest.Nightly, live[0], task.Failed)
			w.spoil(kind)
			if kind.Name == "index" { // the one that a cancelled task comes to, too
				w.do("SET", w.KeysOf(ref("waiting")).Index("default", task.Cancelled), "x")
			}
			who, tick := control.Caller{Namespace: "default"}, storetest.Nightly.ID+"@"+live[0]
			calls := map[string]func() error{
				"cancel": func() error { _, err := w.control.CancelTask(w.Ctx, who, "waiting", ""); return err },
				"ready":  func() error { _, err := w.control.CancelTask(w.Ctx, who, "ready", ""); return err },
				"retry":  func() error { _, err := w.control.RetryTask(w.Ctx, who, tick, time.Time{}); return err },
				"get":    func() error { _, err := w.control.GetSchedule(w.Ctx, who, "nightly"); return err },
				"pause":  func() error { _, err := w.control.PauseSchedule(w.Ctx, who, "nightly", ""); return err },
				"delete": func() error { _, err := w.control.DeleteSchedule(w.Ctx, who, "nightly", ""); return err },
			}
			for _, name := range []string{"cancel", "ready", "retry", "get", "pause", "delete"} {
				err, ofSchedule := calls[name](), slices.Contains([]string{"get", "pause", "delete"}, name)
				if err != nil && (!ofSchedule || task.CodeOf(err) != task.CodeUnreadable) {
					t.Errorf("%s: %v", name, err)
				}
				if name == "retry" && kind.Name == "ledger" { // which only says whether the tick was backfilled
					live := w.DB.ZScore(w.Ctx, string(w.KeysOf(storetest.Nightly).Live(storetest.Nightly)), live[0])
					testkit.Must(t, live.Err())
				}
			}
		})
	}
}

// A definition that is garbage is no reason to keep it for ever.
func TestDeleteSchedule_DeletesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	who := control.Caller{Namespace: "default"}
	w.do("HSET", w.KeysOf(storetest.Nightly).Schedule(storetest.Nightly), "def", "{")
	if _, err := w.control.DeleteSchedule(w.Ctx, who, "nightly", control.DeleteAll); err != nil {
		t.Error(err)
	}
	if _, err := w.control.GetSchedule(w.Ctx, who, "nightly"); task.CodeOf(err) != schedule.CodeNotFound {
		t.Errorf("afterwards: %v", err)
	}
}

// A page of earlier revisions goes on past those that cannot be read, and past those that were put aside.
func TestRevisions_GoOnPastDamage(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.change(5) // so that revision 6 is in force
	history := w.KeysOf(ref("often")).History(ref("often"))
	w.do("LSET", history, 1, "garbage")
	numbers := func(cursor string) (all []int) {
		page, err := w.control.Revisions(w.Ctx, control.Caller{Namespace: "default"}, "often", cursor)
		testkit.Must(t, err)
		for _, r := range page.Revisions {
			all = append(all, r.Number)
		}
		return all
	}
	expect := func() {
		t.Helper()
		if got := numbers(""); !slices.Equal(got, []int{6, 5, 3, 2, 1}) {
			t.Errorf("revisions %v", got)
		}
		if got := numbers("3"); !slices.Equal(got, []int{2, 1}) {
			t.Errorf("before revision 3: %v", got)
		}
	}
	expect()
	w.examine(control.DoctorRequest{Checks: []string{"entry-unreadable"}, Repair: true})
	expect()
}

// An audit proves nothing about the time of a revision that is missing, and does not call what ran then a stray.
func TestAuditSchedule_NamesTheHolesOfAHistory(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.change(2) // so that revision 3 is in force
	often, who := ref("often"), control.Caller{Namespace: "default"}
	audit := func() schedule.Report {
		t.Helper()
		report, err := w.control.AuditSchedule(w.Ctx, who, often.ID, time.Time{}, time.Time{})
		testkit.Must(t, err)
		return report
	}
	if r := audit(); !r.Proved || len(r.Warnings) > 0 {
		t.Fatalf("before: %+v", r)
	}
	history := string(w.KeysOf(often).History(often))
	testkit.Must(t, w.DB.LSet(w.Ctx, history, 0, "garbage").Err())
	r := audit()
	named := len(r.Warnings) == 2 && strings.HasPrefix(r.Warnings[1], "revision 2 is missing")
	if r.Proved || len(r.Strays) > 0 || !named {
		t.Errorf("of garbage: %+v", r)
	}
	w.examine(control.DoctorRequest{Checks: []string{"entry-unreadable"}, Repair: true})
	if r := audit(); r.Proved || len(r.Warnings) != 1 {
		t.Errorf("after it was put aside: %+v", r)
	}
	_, err := w.control.RollbackSchedule(w.Ctx, who, often.ID, 2, 0)
	if task.CodeOf(err) != schedule.CodeRevisionNotFound || !strings.Contains(err.Error(), "is lost") {
		t.Errorf("rolling back to it: %v", err)
	}
	past := control.BackfillRange{From: r.From, Until: r.From, Pace: time.Second}
	if _, err := w.control.BackfillSchedule(w.Ctx, who, often.ID, past); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("backfilling its time: %v", err)
	}
}

// What helps is said of what is damaged: a history needs a repair, and its schedule need not be put again.
func TestRollbackSchedule_AdvisesWhatHelps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage  func(w *ward, often task.Ref)
		advised bool
	}{
		"the history":  {func(w *ward, often task.Ref) { w.do("SET", w.KeysOf(often).History(often), "x") }, false},
		"the schedule": {func(w *ward, often task.Ref) { w.do("SET", w.KeysOf(often).Schedule(often), "x") }, true},
	} {
		w := newWard(t)
		w.change(2)
		c.damage(w, ref("often"))
		_, err := w.control.RollbackSchedule(w.Ctx, control.Caller{Namespace: "default"}, "often", 1, 0)
		if err == nil || strings.Contains(err.Error(), "then put it again") != c.advised {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Count(err.Error(), "dtsctl doctor") > 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The ticks of a schedule that came back go on though its history had garbage in it.
func TestExamine_BringsAScheduleBackPastGarbage(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int64{"the newest": 0, "the oldest": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			often := ref("often")
			w.change(3) // so that revision 4 is in force: after its loss, 5 is
			testkit.Must(t, w.DB.LSet(w.Ctx, string(w.KeysOf(often).History(often)), at, "garbage").Err())
			w.do("DEL", w.KeysOf(often).Schedule(often))
			w.examine(control.DoctorRequest{Checks: []string{"schedule-lost"}, Repair: true})
			if s := w.Schedule(often); s.Revision != 5 {
				t.Fatalf("it is back as %+v", s)
			}
			_, err := w.Schedules.Resume(w.Ctx, often, "")
			testkit.Must(t, err)
			for range 2 { // the first change decides nothing of the time before
				w.Put(storetest.Daily(func(d *schedule.Definition) { d.Ref, d.Rules = often, []schedule.Rule{{Every: time.Hour}} }))
				w.Fire(often)
			}
			next := w.DB.ZScore(w.Ctx, string(w.KeysOf(often).Ticks()), often.String()).Val()
			if in := time.Until(time.UnixMilli(int64(next))); in < 30*time.Minute {
				t.Errorf("its leader looks at it in %s", in)
			}
		})
	}
}

// Nothing but its keys tells of this schedule, and an examination looks at these once.
func TestExamine_BringsAnUnreadableScheduleBack(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	often := ref("often")
	w.change(2)
	w.do("HDEL", w.KeysOf(often).Schedule(often), "revision")
	w.do("ZREM", w.KeysOf(often).Schedules(), often)
	w.do("ZREM", w.KeysOf(often).Ticks(), often)
	w.examine(control.DoctorRequest{Repair: true})
	if s := w.Schedule(often); s.Revision != 4 || s.Task.Queue != "2" || s.PausedAt.IsZero() {
		t.Errorf("it is back as %+v", s)
	}
}

// Runs that the ledger has still count, and intervals have the ticks that they had, though nobody knows when the
// schedule was created.
func TestExamine_KeepsWhatTheLedgerTellsOfALostSchedule(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	often := ref("often")
	w.Put(storetest.Daily(func(d *schedule.Definition) {
		d.Ref, d.Rules, d.Overlap = often, []schedule.Rule{{Every: 7 * time.Hour}}, schedule.OverlapAllow
		d.Misfire = schedule.Misfire{Policy: schedule.MisfireAll, Window: 1000 * time.Hour}
	}))
	w.Rewind(often, 22*time.Hour)
	w.Fire(often)
	before := w.Schedule(often)
	_, err := w.Trigger(often) // by hand, so no run of the definition
	testkit.Must(t, err)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Ref = often }))
	history := string(w.KeysOf(often).History(often))
	entry := w.DB.LIndex(w.Ctx, history, 0).Val()
	entry = strings.Replace(entry, `"revision":"1"`, `"revision":"21"`, 1) // as after many changes
	from := strconv.FormatInt(before.UpdatedAt.UnixMilli(), 10)
	later := strconv.FormatInt(before.UpdatedAt.Add(time.Hour).UnixMilli(), 10)
	entry = strings.Replace(entry, `"from":"`+from, `"from":"`+later, 1)
	testkit.Must(t, w.DB.LSet(w.Ctx, history, 0, entry).Err())
	ledger := string(w.KeysOf(often).Ledger(often))
	for _, z := range w.DB.ZRangeWithScores(w.Ctx, ledger, 0, -1).Val() {
		record := strings.Fields(z.Member.(string))
		if record[0] == "fired" {
			record[1] = "21"
		} else {
			record[5] = "21"
		}
		w.do("ZREM", ledger, z.Member)
		testkit.Must(t, w.DB.ZAdd(w.Ctx, ledger, redis.Z{Score: z.Score, Member: strings.Join(record, " ") + " "}).Err())
	}
	w.do("DEL", w.KeysOf(often).Schedule(often))
	w.examine(control.DoctorRequest{Checks: []string{"schedule-lost"}, Repair: true})
	s := w.Schedule(often)
	if s.Runs != 3 || before.Runs != 3 || s.Revision != 23 {
		t.Errorf("it has %d runs, before %d, and is revision %d", s.Runs, before.Runs, s.Revision)
	}
	if off := s.CreatedAt.Sub(before.CreatedAt) % (7 * time.Hour); off != 0 {
		t.Errorf("its intervals have moved by %s", off)
	}
	unknown := "whether it had ended, and when it was created"
	if !strings.Contains(s.PauseNote, "It counts 3 runs") || !strings.HasSuffix(s.PauseNote, unknown) {
		t.Errorf("the note says %q", s.PauseNote)
	}
}
