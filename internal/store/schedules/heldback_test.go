package schedules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/partition"
	"github.com/dts-sched/dts/internal/store/schedules"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// holdBack does what a leader does about a schedule whose queue is full.
func holdBack(t *testing.T, w *storetest.World) {
	t.Helper()
	fired := w.Leader(nightly).Fire(w.Ctx, []partition.Planned{partition.HoldBack(w.Agenda(nightly))})
	testkit.Must(t, fired[0].Err)
}

// lookIn has the leader look at the schedule nightly again after that time.
func lookIn(w *storetest.World, in time.Duration) {
	at := redis.Z{Score: float64(time.Now().Add(in).UnixMilli()), Member: nightly.String()}
	w.DB.ZAdd(w.Ctx, string(w.KeysOf(nightly).Ticks()), at)
}

// heldBack is what is held back of the schedule nightly.
func heldBack(t *testing.T, w *storetest.World) []schedules.HeldBack {
	t.Helper()
	all, err := w.Schedules.HeldBack(w.Ctx, w.PartitionOf(nightly), []string{"ghost", "default:ghost", nightly.String()})
	testkit.Must(t, err)
	return all
}

func TestHeldBack_TellsTheQueueAndTheFirstTick(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	hour := now.Add(-2*time.Hour - time.Minute).Format("15") // of the first tick, unless the next one begins just now
	days := now.AddDate(0, 0, -2).Format(time.DateOnly) + "/" + now.AddDate(0, 0, 2).Format(time.DateOnly)
	const deceptive = `{"type":"x","queue":"low"}`
	long := `"` + strings.Repeat("x", 2*task.InlinePayloadLimit) + `"`
	for name, c := range map[string]struct {
		change func(d *schedule.Definition)
		queue  string
	}{
		"no queue":     {func(*schedule.Definition) {}, task.DefaultQueue},
		"its queue":    {func(d *schedule.Definition) { d.Task.Queue = "low" }, "low"},
		"long":         {func(d *schedule.Definition) { d.Task.Queue, d.Task.Payload = "low", []byte(long) }, "low"},
		"deceptive":    {func(d *schedule.Definition) { d.Task.Payload = []byte(deceptive) }, task.DefaultQueue},
		"one excluded": {func(d *schedule.Definition) { d.Exclude = []string{"* " + hour + " * * *"} }, task.DefaultQueue},
		"all excluded": {func(d *schedule.Definition) { d.Exclude = []string{days} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			names := w.Hourly(3, c.change)
			holdBack(t, w)
			all := heldBack(t, w)
			if name == "one excluded" {
				names = slices.DeleteFunc(names, func(tick string) bool { return tick[len("20261129T"):][:2] == hour })
			}
			switch {
			case c.queue == "" && len(all) > 0:
				t.Errorf("%+v is held back", all)
			case c.queue == "":
			case len(all) != 1 || all[0].Ref != nightly || all[0].Queue != c.queue,
				schedule.TickName(all[0].Since) != names[0]:
				t.Errorf("held back is %+v, want %s from %s on", all, c.queue, names[0])
			}
		})
	}
}

func TestHeldBack_LeavesOutWhatIsNot(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(w *storetest.World){
		"decided":   func(w *storetest.World) { w.MakeDue(nightly); w.Fire(nightly) },
		"paused":    func(w *storetest.World) { w.Pause(nightly) },
		"deleted":   func(w *storetest.World) { w.Pause(nightly); _ = w.Schedules.Delete(w.Ctx, nightly, "") },
		"due again": func(w *storetest.World) { w.MakeDue(nightly) }, // and its leader is away
		"unreadable": func(w *storetest.World) {
			w.DB.HSet(w.Ctx, string(w.KeysOf(nightly).Schedule(nightly)), "def", "{")
		},
		"put off": func(w *storetest.World) { lookIn(w, time.Minute) }, // as one of which a key is damaged
		"overdue": func(w *storetest.World) { lookIn(w, -2*time.Minute) },
		"about to tick": func(w *storetest.World) { // the next one is due within a second: see Hourly
			w.MakeDue(nightly)
			w.Fire(nightly)
			w.Rewind(nightly, 59*time.Minute-time.Second)
			w.Fire(nightly)
		},
		"not due yet": func(w *storetest.World) { w.Put(storetest.Daily(nil)); w.MakeDue(nightly); w.Fire(nightly) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := storetest.New(t)
			w.Hourly(3, nil)
			holdBack(t, w)
			if all := heldBack(t, w); len(all) != 1 {
				t.Fatalf("held back is %+v", all)
			}
			after(w)
			if all := heldBack(t, w); len(all) != 0 {
				t.Errorf("held back is %+v", all)
			}
		})
	}
}

// Ticks up to the change have the times of the revision before.
func TestHeldBack_KnowsTicksOfAnEarlierRevision(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	names := w.Hourly(3, nil)
	w.Put(storetest.Daily(func(d *schedule.Definition) { d.Task.Queue = "low" }))
	w.MakeDue(nightly)
	holdBack(t, w)
	all := heldBack(t, w)
	if len(all) != 1 || all[0].Queue != "low" || !slices.Contains(names[:1], schedule.TickName(all[0].Since)) {
		t.Errorf("held back is %+v, want low from %s on", all, names[0])
	}
}
