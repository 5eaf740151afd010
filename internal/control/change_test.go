package control

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

func TestChangeTask_ChangesWhatIsGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.submit([]task.Definition{{Ref: task.Ref{ID: "a"}, Type: "http", Queue: "low", Delay: time.Hour}})[0].Task
	due := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	got, err := w.ChangeTask(w.ctx, me, "a", TaskChange{RunAt: &due, Payload: json.RawMessage(`{ "n": 1 }`)})
	if err != nil || !got.DueAt.Equal(due) || got.Queue != "low" || string(got.Payload) != `{"n":1}` || got.CreatedAt != made.CreatedAt {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = w.ChangeTask(w.ctx, me, "a", TaskChange{Queue: new("high")})
	if err != nil || !got.DueAt.Equal(due) || got.Queue != "high" {
		t.Errorf("only the queue: %+v, %v", got, err)
	}
}

func TestChangeTask_Refuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit([]task.Definition{{Ref: task.Ref{ID: "waits"}, Type: "http", Delay: time.Hour}, {Ref: task.Ref{ID: "runs"}, Type: "http"}})
	w.begun(me.Ref("runs"))
	for id, c := range map[string]struct {
		change TaskChange
		want   task.Code
	}{
		"nobody": {TaskChange{Delay: new(time.Second)}, task.CodeTaskNotFound},
		"runs":   {TaskChange{Delay: new(time.Second)}, task.CodeNotWaiting},
		"waits":  {TaskChange{Delay: new(time.Second), RunAt: new(time.Now())}, task.CodeInvalid},
	} {
		if _, err := w.ChangeTask(w.ctx, me, id, c.change); task.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", id, err, c.want)
		}
	}
}
