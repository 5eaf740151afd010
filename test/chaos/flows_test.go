package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/flowtest"
	"github.com/dts-sched/dts/internal/workflow/text"
)

const (
	flowPace  = 400 * time.Millisecond // between two requests about runs of workflows, on average
	flowSteps = 12                     // of a run, at most
)

// flowJob is a run of a workflow that a client submitted, and what it was told about it.
type flowJob struct {
	id    string
	steps map[string]flowStep // by the id of a step that has a task

	accepted bool
	asked    bool       // somebody asked to cancel it
	paused   bool       // somebody asked to pause it, and not yet to resume it
	reran    bool       // somebody asked to run it again
	cancels  []answered // the cancellations that were accepted
	answers  []span     // requests whose answers told a client something of the run

	signals []string        // for which steps of it wait
	given   map[string]bool // signals that somebody gave; true: with success
}

// flowStep is how the task of a step does.
type flowStep struct {
	behaviour   behaviour
	maxAttempts int // of one release
	keys        string
}

// driveFlows is the workload of the client that runs workflows, until ctx ends.
func (w *workload) driveFlows(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 200))
	data, err := store.Open(ctx, store.Options{DB: w.db})
	if err != nil {
		w.t.Errorf("no run of a workflow is played: %v", err)
		return
	}
	told := control.New(control.Options{Store: data, Queues: queue.New(queue.Options{DB: w.db})})
	for n := 0; clock.Sleep(ctx, time.Duration(random.Int64N(int64(2*flowPace)))) == nil; n++ {
		var j *flowJob
		if len(w.flows) > 0 {
			j = w.flows[len(w.flows)-1-random.IntN(min(len(w.flows), 8))]
		}
		switch chance := random.IntN(16); {
		case chance >= 12 && j != nil:
			w.answerFlow(ctx, told, random, j)
		case chance < 6 || j == nil:
			w.submitFlow(random, fmt.Sprintf("flow-%03d", n))
		case chance < 8:
			w.cancelFlow(j)
		case chance < 10:
			w.rerunFlow(j)
		case j.paused:
			w.resumeFlow(j)
		default:
			w.pauseFlow(j)
		}
	}
	for _, j := range w.flows { // a paused run does not end
		if j.paused {
			w.resumeFlow(j)
		}
	}
}

// submitFlow submits a run of a random workflow.
func (w *workload) submitFlow(random *rand.Rand, id string) {
	j := &flowJob{id: id, steps: make(map[string]flowStep), given: make(map[string]bool)}
	definition, err := text.Encode(w.newFlow(random, j))
	if err != nil {
		w.t.Errorf("%s: %v", id, err)
		return
	}
	w.flows = append(w.flows, j)
	s := wire.Submission{ID: &j.id, Type: task.WorkflowType, Payload: fmt.Appendf(nil, `{"definition": %s}`, definition)}
	status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.SubmitTaskWithResponse(ctx, nil, s)
	})
	var shown wire.Task
	if err := json.Unmarshal(body, &shown); err != nil || status != http.StatusCreated && status != http.StatusOK {
		w.t.Errorf("submitting %s was answered by %d: %s", id, status, body)
		return
	}
	j.accepted, j.answers = true, append(j.answers, span{shown.CreatedAt.Time, shown.CreatedAt.Time})
}

// newFlow returns a workflow whose tasks call the handlers, and notes in j what these do. None of its steps waits for
// long.
func (w *workload) newFlow(random *rand.Rand, j *flowJob) workflow.Definition {
	d := flowtest.AnyThatWaits(random, flowSteps)
	for _, steps := range [][]workflow.Step{d.Steps, d.OnFailure, d.Finally} {
		for i, s := range steps {
			if s.Wait != nil {
				j.waits(s.Wait, time.Duration(1+random.IntN(2000))*time.Millisecond)
			}
			if s.Task == nil {
				continue
			}
			as := flowStep{behaviour: works, maxAttempts: 1 + random.IntN(4)}
			as.keys = limitKeys[random.IntN(len(limitKeys))]
			switch chance := random.IntN(100); {
			case chance < 12:
				as.behaviour = flaky
			case chance < 18:
				as.behaviour = doomed
			case chance < 24:
				as.behaviour = permanent
			case chance < 27:
				as.behaviour = hangs
			}
			url := w.handlers.address(as.behaviour, time.Duration(random.IntN(300))*time.Millisecond, 1)
			j.steps[s.ID] = as
			steps[i].Task = &task.Definition{
				Type: "http", Payload: fmt.Appendf(nil, `{"url": %q, "body": %s}`, url, s.Task.Payload),
				Timeout: as.behaviour.timeout(), Retry: task.Retry{MaxAttempts: as.maxAttempts, Backoff: backoff},
				LimitKey: as.keys,
			}
		}
	}
	return d
}

// waits shortens a wait, and notes its signal.
func (j *flowJob) waits(w *workflow.Wait, timeout time.Duration) {
	w.For /= 6 // of up to 3 s
	if w.Signal != "" || w.Approval != nil {
		w.Timeout = timeout
	}
	if w.Signal != "" {
		j.signals = append(j.signals, w.Signal)
	}
}

// answerFlow gives a run a signal, or answers an approval of it.
func (w *workload) answerFlow(ctx context.Context, told *control.Control, random *rand.Rand, j *flowJob) {
	who := control.Caller{Namespace: task.DefaultNamespace}
	during := span{from: time.Now()}
	var err error
	if len(j.signals) > 0 && random.IntN(2) == 0 {
		name := j.signals[random.IntN(len(j.signals))]
		_, err = told.SignalRun(ctx, who, j.id, name, fmt.Appendf(nil, `{"n":%d}`, random.IntN(3)))
		j.given[name] = j.given[name] || err == nil
	} else {
		err = answerAny(ctx, told, who, random, j.id)
	}
	during.until = time.Now()
	switch code := task.CodeOf(err); {
	case err == nil:
		j.answers = append(j.answers, during)
	case ctx.Err() != nil, code == task.CodeUnavailable, code == task.CodeNotRunning:
	case code == workflow.CodeSignalGiven, code == workflow.CodeStepNotWaiting:
	case code == task.CodeTaskNotFound && (!j.accepted || w.past.wasFull() || w.past.mayHaveLost(j.id)):
	default:
		w.violation("%s, which was accepted, takes no signal and no answer: %v", j.id, err)
	}
}

// answerAny answers the first approval of a run that waits.
func answerAny(ctx context.Context, told *control.Control, who control.Caller, random *rand.Rand, id string) error {
	run, err := told.GetRun(ctx, who, id)
	if err != nil {
		return err
	}
	for _, s := range run.Steps {
		switch {
		case s.State != workflow.Waiting || s.Wait.Approval == nil:
			continue
		case random.IntN(3) == 0:
			_, err = told.RejectStep(ctx, who, id, s.ID, "bad")
		default:
			_, err = told.ApproveStep(ctx, who, id, s.ID, control.Reply{})
		}
		return err
	}
	return nil
}

func (w *workload) cancelFlow(j *flowJob) {
	j.asked = true
	during, status, body := w.tell(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.CancelTaskWithResponse(ctx, j.id, nil)
	})
	if shown, ok := w.flowIn("cancelling", j, status, body); ok {
		j.answers = append(j.answers, during)
		j.cancels = append(j.cancels, answered{at: during.until, attempt: shown.Attempt, state: shown.State})
	}
}

// rerunFlow runs again what failed, if the run has ended.
func (w *workload) rerunFlow(j *flowJob) {
	j.reran = true
	during, status, body := w.tell(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.RetryTaskWithResponse(ctx, j.id, nil)
	})
	if _, ok := w.flowIn("running again", j, status, body); ok {
		j.answers = append(j.answers, during)
	}
}

func (w *workload) pauseFlow(j *flowJob) {
	j.paused = true
	status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.PauseRunWithResponse(ctx, j.id, nil)
	})
	w.flowIn("pausing", j, status, body)
}

func (w *workload) resumeFlow(j *flowJob) {
	j.paused = false
	status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.ResumeRunWithResponse(ctx, j.id, nil)
	})
	w.flowIn("resuming", j, status, body)
}

// flowIn is the run of an answer; false if the request came at another time than it should.
func (w *workload) flowIn(what string, j *flowJob, status int, body []byte) (shown wire.Task, ok bool) {
	switch status {
	case http.StatusConflict:
	case http.StatusNotFound:
		if j.accepted && !w.past.wasFull() && !w.past.mayHaveLost(j.id) {
			w.violation("%s %s, which was accepted, was answered by %d: %s", what, j.id, status, body)
		}
	case http.StatusOK:
		if err := json.Unmarshal(body, &shown); err != nil {
			w.t.Errorf("%s %s: %v in %s", what, j.id, err, body)
		}
		return shown, true
	default:
		w.t.Errorf("%s %s was answered by %d: %s", what, j.id, status, body)
	}
	return shown, false
}
