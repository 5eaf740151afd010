package control

import (
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// ann is a caller who says who she is.
var ann = Caller{Namespace: me.Namespace, Name: "ann@vm-a", Address: "10.0.0.7"}

func TestCaller_SaysWhoItIs(t *testing.T) {
	t.Parallel()
	for want, who := range map[string]Caller{
		"ann":                     {Name: "ann", Verified: true, Address: "10.0.0.7"},
		"ann@vm-a (not verified)": ann,
		"somebody at 10.0.0.7":    {Address: "10.0.0.7"},
		"":                        {Namespace: "default"},
	} {
		if got := who.By(); got != want {
			t.Errorf("%+v is %q, want %q", who, got, want)
		}
	}
}

func TestSchedule_KeepsWhoPutAndWhoPausedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.PutSchedule(w.ctx, ann, daily(nil), PutOptions{})
	testkit.Must(t, err)
	paused, err := w.PauseSchedule(w.ctx, ann, nightly.ID, "the disk is full")
	testkit.Must(t, err)
	if paused.By != ann.By() || paused.PausedBy != ann.By() {
		t.Errorf("put by %q and paused by %q, want %q", paused.By, paused.PausedBy, ann.By())
	}
	bob := Caller{Namespace: me.Namespace, Name: "bob", Verified: true}
	for _, c := range []struct{ note, by string }{{"", ann.By()}, {"still", "bob"}} { // whoever wrote the note
		again, err := w.PauseSchedule(w.ctx, bob, nightly.ID, c.note)
		testkit.Must(t, err)
		if again.PausedBy != c.by || !again.PausedAt.Equal(paused.PausedAt) {
			t.Errorf("paused again with the note %q: by %q at %s, want %q", c.note, again.PausedBy, again.PausedAt, c.by)
		}
	}
	put, err := w.PutSchedule(w.ctx, bob, daily(func(d *schedule.Definition) { d.Description = "another" }), PutOptions{})
	testkit.Must(t, err)
	page, err := w.Revisions(w.ctx, me, nightly.ID, "")
	testkit.Must(t, err)
	if put.Schedule.By != "bob" || page.Revisions[0].By != "bob" || page.Revisions[1].By != ann.By() {
		t.Errorf("put by %q; the revisions are by %q and %q", put.Schedule.By, page.Revisions[0].By, page.Revisions[1].By)
	}
	resumed, err := w.ResumeSchedule(w.ctx, bob, nightly.ID)
	testkit.Must(t, err)
	if resumed.PausedBy != "" {
		t.Errorf("resumed, it is paused by %q", resumed.PausedBy)
	}
}

// What an older release did to the schedule left the fields as they were.
func TestSchedule_NamesNobodyForWhatAnOlderReleaseDid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.PutSchedule(w.ctx, ann, daily(nil), PutOptions{})
	testkit.Must(t, err)
	_, err = w.PauseSchedule(w.ctx, ann, nightly.ID, "")
	testkit.Must(t, err)
	key := string(w.store.KeysOf(nightly).Schedule(nightly))
	paused := w.schedule(nightly).PausedAt.Add(time.Second).UnixMilli()
	testkit.Must(t, w.db.HSet(w.ctx, key, "revision", 2, "paused", paused).Err())
	if s := w.schedule(nightly); s.By != "" || s.PausedBy != "" {
		t.Errorf("put by %q, paused by %q, want nobody", s.By, s.PausedBy)
	}
}

func TestTrigger_KeepsWhoAskedForTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(daily(nil))
	entry, err := w.TriggerSchedule(w.ctx, ann, nightly.ID)
	testkit.Must(t, err)
	ledger, err := w.Ledger(w.ctx, me, nightly.ID, LedgerFilter{}, 10, "")
	testkit.Must(t, err)
	want := "asked for by " + ann.By()
	if entry.Reason != want || len(ledger.Entries) != 1 || ledger.Entries[0].Reason != want {
		t.Errorf("the answer says %q, the ledger %+v, want %q", entry.Reason, ledger.Entries, want)
	}
}

func TestQueue_KeepsWhoPausedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit([]task.Definition{{Type: "http", Queue: "low"}})
	testkit.Must(t, w.queues.Add(w.ctx, "low"))
	testkit.Must(t, w.PauseQueue(w.ctx, ann, "low", ""))
	testkit.Must(t, w.PauseQueue(w.ctx, me, "low", ""))
	queues, err := w.ListQueues(w.ctx, me)
	if err != nil || len(queues) != 1 || queues[0].PausedBy != ann.By() {
		t.Errorf("%+v, %v, want one that %s paused", queues, err, ann.By())
	}
}

func TestNotes_SayWhyAndAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit([]task.Definition{{Type: "http", Queue: "low", Delay: time.Hour}})[0].Task.ID
	testkit.Must(t, w.queues.Add(w.ctx, "low"))
	long := strings.Repeat("x", schedule.NoteLimit+1)
	if err := w.PauseQueue(w.ctx, ann, "low", long); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a long note of a queue: %v", err)
	}
	if _, err := w.CancelTask(w.ctx, ann, id, long); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a long note of a task: %v", err)
	}
	testkit.Must(t, w.PauseQueue(w.ctx, ann, "low", "it moves"))
	queues, err := w.ListQueues(w.ctx, me)
	if err != nil || len(queues) != 1 || queues[0].PauseNote != "it moves" {
		t.Errorf("%+v, %v of the queue", queues, err)
	}
	cancelled, err := w.CancelTask(w.ctx, ann, id, "withdrawn")
	if want := "cancelled by " + ann.By() + ": withdrawn"; err != nil || cancelled.Error != want {
		t.Errorf("the error is %q, %v, want %q", cancelled.Error, err, want)
	}
}

func TestCancelTask_KeepsWhoCancelledIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit([]task.Definition{{Type: "http", Delay: time.Hour}})[0].Task.ID
	got, err := w.CancelTask(w.ctx, ann, id, "")
	testkit.Must(t, err)
	if want := "cancelled by " + ann.By(); got.Error != want {
		t.Errorf("the error is %q, want %q", got.Error, want)
	}
	if _, err := w.CancelTask(w.ctx, Caller{Namespace: me.Namespace, Name: "bob"}, id, ""); err != nil {
		t.Error(err)
	}
	if again, err := w.GetTask(w.ctx, me, id); err != nil || !strings.Contains(again.Error, "ann") {
		t.Errorf("cancelled once more, its error is %q, %v", again.Error, err)
	}
}

func TestNotes_AreOneLineOfText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit([]task.Definition{{Type: "http", Queue: "low", Delay: time.Hour}})[0].Task.ID
	testkit.Must(t, w.queues.Add(w.ctx, "low"))
	for _, note := range []string{"x\ncancelled by root", "\x1b[2J", "\xff"} {
		if err := w.PauseQueue(w.ctx, ann, "low", note); task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("a queue was paused with %q: %v", note, err)
		}
		if _, err := w.CancelTask(w.ctx, ann, id, note); task.CodeOf(err) != task.CodeInvalid {
			t.Errorf("a task was cancelled with %q: %v", note, err)
		}
	}
}
