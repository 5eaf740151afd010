package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestPause_AndResumeCanBeRepeated(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(aDelivery("a"))
	for _, want := range []bool{true, false} {
		do := func(ctx context.Context, name string) error { return x.Resume(ctx, name, "") }
		if want {
			do = func(ctx context.Context, name string) error { return x.Pause(ctx, name, "ann", "") }
		}
		for range 2 {
			testkit.Must(t, do(t.Context(), "default"))
			infos, err := x.List(t.Context())
			testkit.Must(t, err)
			if infos[0].Paused != want || (infos[0].PausedBy == "ann") != want {
				t.Errorf("paused is %v, by %q, want %v", infos[0].Paused, infos[0].PausedBy, want)
			}
		}
	}
}

func TestPause_KeepsTheNoteOfTheFirst(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(aDelivery("a"))
	testkit.Must(t, x.Pause(t.Context(), "default", "ann at work", "the disk is full: wait"))
	testkit.Must(t, x.Pause(t.Context(), "default", "bob", "another"))
	infos, err := x.List(t.Context())
	testkit.Must(t, err)
	standing, err := x.Standing(t.Context(), "default", "")
	testkit.Must(t, err)
	got := infos[0]
	if got.PausedBy != "ann at work" || got.PauseNote != "the disk is full: wait" || got.PausedAt.IsZero() ||
		standing.PausedBy != got.PausedBy || standing.Note != got.PauseNote || !standing.PausedAt.Equal(got.PausedAt) {
		t.Errorf("listed as %+v, standing %+v", got, standing)
	}
}

func TestPause_SucceedsForAllWhoCallItAtOnce(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(aDelivery("a"))
	for range 20 {
		for _, do := range []func(string) error{
			func(name string) error { return x.Pause(t.Context(), name, "", "") },
			func(name string) error { return x.Resume(t.Context(), name, "") },
		} {
			var both sync.WaitGroup
			for range 4 {
				both.Go(func() {
					if err := do("default"); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
		}
	}
}

func TestPause_RefusesAnUnknownQueue(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	if code := task.CodeOf(x.Pause(t.Context(), "nowhere", "", "")); code != CodeNotFound {
		t.Errorf("pause: code %s, want %s", code, CodeNotFound)
	}
	if code := task.CodeOf(x.Resume(t.Context(), "nowhere", "")); code != CodeNotFound {
		t.Errorf("resume: code %s, want %s", code, CodeNotFound)
	}
	if code := task.CodeOf(x.Pause(t.Context(), "a:b}", "", "")); code != task.CodeInvalid {
		t.Errorf("a name that no queue can have: code %s, want %s", code, task.CodeInvalid)
	}
	if keys := x.db.DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("%d keys were written, want none", keys)
	}
}

func TestList_CountsByState(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	for _, id := range []string{"a", "b", "c"} {
		x.enqueue(aDelivery(id))
	}
	testkit.Must(t, x.inspector.ArchiveTask("default", "default:c:1"))
	x.take(aDelivery("a"), time.Minute)
	other := aDelivery("d")
	other.Queue = "critical"
	x.enqueue(other)
	infos, err := x.List(t.Context())
	testkit.Must(t, err)
	if len(infos) != 2 || infos[0].Name != "critical" || infos[1].Name != "default" {
		t.Fatalf("the queues are %+v, want critical and default", infos)
	}
	if d := infos[1]; d.Pending != 1 || d.Active != 1 || d.Archived != 1 || d.Size != 3 {
		t.Errorf("default is %+v, want one each of pending, active and archived, 3 in all", d)
	}
}

func TestList_ReportsAnUnreachableRedis(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	x := newTransport(t)
	x.srv.Kill()
	if _, err := x.List(t.Context()); task.CodeOf(err) != task.CodeUnavailable {
		t.Errorf("the error is %v, want code %s", err, task.CodeUnavailable)
	}
}
