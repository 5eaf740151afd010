package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/task"
)

const (
	clients    = 4                     // that submit, cancel and change tasks
	pace       = 80 * time.Millisecond // between two requests of a client, on average
	askAgain   = 150 * time.Millisecond
	hangsUntil = time.Second // the timeout of tasks that hang
)

// patient is the HTTP client of all clients: it waits longer than a node may take to say that Redis does not answer.
var patient = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// job is a task that a client submitted, and what it was told about it.
type job struct {
	id          string
	behaviour   behaviour
	kind        string // of the task: http or go
	maxAttempts int
	takes       time.Duration
	keys        string            // under which limits count it
	cost        int               // slots of each of its limits
	moves       bool              // its handler gives its work up when it is asked to move
	place       *place            // where it may run; nil: anywhere
	due         time.Time         // it may not begin earlier
	when        wire.FollowUpWhen // after which ends a task follows it; "": after none
	changing    sync.Mutex        // held by the client that changes it

	mu       sync.Mutex
	accepted bool
	cancels  []answered // the cancellations that were accepted
	asked    bool       // somebody asked to cancel it
	version  int        // of the newest payload
	changes  []answered
	moving   int      // how often somebody asked it to move
	movesTo  []string // the members of the requests that were accepted; "": any other one
	answers  []span   // requests of which the answer told a client something of the task
	missed   []string // answers that say that the task is not there, although it was accepted

	remembered wire.State // in which it ended, if it is gone from the history; "": it is not, or it is not known
}

// answered is what an answer says: whatever begins later in another attempt than those up to this one knows it.
type answered struct {
	at      time.Time
	attempt int
	state   wire.State
	version int // of the payload
}

// workload is what clients do in a round.
type workload struct {
	*round
	mu    sync.Mutex
	jobs  []*job
	flows []*flowJob // of driveFlows
}

// drive is the workload of all clients until ctx ends; what was begun is carried through before the round's end.
func (w *workload) drive(ctx context.Context, seed uint64) {
	var running sync.WaitGroup
	for c := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(100+c)))
		running.Go(func() {
			for n := 0; clock.Sleep(ctx, time.Duration(random.Int64N(int64(2*pace)))) == nil; n++ {
				w.step(random, fmt.Sprintf("t%d-%04d", c, n))
			}
		})
	}
	running.Wait()
}

// step is the next thing that a client does.
func (w *workload) step(random *rand.Rand, id string) {
	switch n := random.IntN(100); {
	case n < 60:
		w.submit(w.newJob(random, id))
	case n < 70:
		jobs := make([]*job, 6)
		for i := range jobs {
			jobs[i] = w.newJob(random, fmt.Sprintf("%s-%02d", id, i))
		}
		w.submitBatch(jobs)
	case n < 82:
		if j := w.any(random); j != nil {
			w.cancel(j)
		}
	case n < 94:
		if j := w.any(random); j != nil {
			w.change(j)
		}
	default:
		if j := w.any(random); j != nil {
			w.move(j, []string{"", "goworker", "webworker"}[random.IntN(3)])
		}
	}
}

func (w *workload) newJob(random *rand.Rand, id string) *job {
	j := &job{id: id, behaviour: works, kind: "http", maxAttempts: 1 + random.IntN(5), takes: time.Duration(random.IntN(300)) * time.Millisecond, version: 1}
	switch n := random.IntN(100); {
	case n < 15:
		j.behaviour = flaky
	case n < 23:
		j.behaviour = doomed
	case n < 30:
		j.behaviour = permanent
	case n < 35:
		j.behaviour = hangs
	case n < 45:
		j.takes = time.Second + time.Duration(random.IntN(4000))*time.Millisecond
	}
	if random.IntN(5) == 0 {
		j.kind = "go"
	}
	if random.IntN(3) == 0 {
		j.due = time.Now().Add(time.Duration(random.IntN(4000)) * time.Millisecond)
	}
	if n := random.IntN(2 * len(whens)); n < len(whens) {
		j.when = whens[n]
	}
	j.moves = random.IntN(2) == 0
	j.limitAndPlace(random)
	return j
}

// backoff is that of all tasks. Its jitter leaves most of each wait, so that an attempt without one is seen.
var backoff = task.Backoff{Initial: 100 * time.Millisecond, Max: 500 * time.Millisecond, Jitter: new(0.1)}

// retryUpTo is the retry policy of a task with so many attempts.
func retryUpTo(attempts int) *wire.Retry {
	return &wire.Retry{MaxAttempts: &attempts, Backoff: &wire.Backoff{
		Initial: ptr(backoff.Initial.String()), Max: ptr(backoff.Max.String()), Jitter: backoff.Jitter,
	}}
}

// submission is the job as the API takes it: always the same, so that it can be repeated.
func (w *workload) submission(j *job) wire.Submission {
	s := wire.Submission{
		ID: &j.id, Type: j.kind, Payload: w.payload(j, 1), Timeout: ptr(j.behaviour.timeout().String()),
		Retry: retryUpTo(j.maxAttempts), OnEnd: w.onEnd(j.when),
	}
	if j.keys != "" {
		s.LimitKey = &j.keys
	}
	if j.cost > 1 {
		s.Cost = &j.cost
	}
	if j.place != nil {
		j.place.addTo(&s)
	}
	if !j.due.IsZero() {
		s.RunAt = ptr(wire.At(j.due.UTC()))
	}
	return s
}

func (w *workload) payload(j *job, version int) json.RawMessage {
	address := w.handlers.address(j.behaviour, j.takes, version)
	if j.moves {
		address += "&moves=1"
	}
	return payloadOf(address)
}

func payloadOf(url string) json.RawMessage {
	payload, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		panic(err)
	}
	return payload
}

// tell sends a request as ask does, and returns when the one that was answered was on its way: Redis wrote, or read, at some time in it.
func (w *workload) tell(send func(context.Context, *client.ClientWithResponses) (answer, error)) (during span, status int, body []byte) {
	status, body = w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		during.from = time.Now()
		return send(ctx, c)
	})
	during.until = time.Now()
	return during, status, body
}

func (w *workload) submit(j *job) {
	w.note(j)
	status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.SubmitTaskWithResponse(ctx, nil, w.submission(j))
	})
	var shown wire.Task
	_ = json.Unmarshal(body, &shown) // accepted looks at it
	w.accepted(j, status, &shown, body)
}

// accepted notes that a submission was answered: 201 and the task, or 200 if an earlier answer was lost.
func (w *workload) accepted(j *job, status int, shown *wire.Task, body []byte) {
	if status != http.StatusCreated && status != http.StatusOK || shown == nil || shown.CreatedAt.IsZero() {
		w.t.Errorf("submitting %s was answered by %d: %s", j.id, status, body)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.accepted, j.answers = true, append(j.answers, span{shown.CreatedAt.Time, shown.CreatedAt.Time})
}

func (w *workload) submitBatch(jobs []*job) {
	var batch wire.SubmissionBatch
	for _, j := range jobs {
		batch.Tasks = append(batch.Tasks, w.submission(j))
	}
	open := jobs
	for len(open) > 0 {
		var page wire.BatchAnswer
		status, body := w.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.SubmitTasksWithResponse(ctx, nil, batch)
		})
		if err := json.Unmarshal(body, &page); err != nil || status != http.StatusOK || len(page.Results) != len(open) {
			w.t.Errorf("a batch was answered by %d: %s", status, body)
			return
		}
		open, batch = w.again(open, batch, page)
		if len(open) > 0 && clock.Sleep(w.ctx, askAgain) != nil {
			return
		}
	}
}

// again is what of a batch must be submitted again.
func (w *workload) again(jobs []*job, batch wire.SubmissionBatch, page wire.BatchAnswer) (open []*job, next wire.SubmissionBatch) {
	for i, result := range page.Results {
		if result.Status >= http.StatusInternalServerError {
			open, next.Tasks = append(open, jobs[i]), append(next.Tasks, batch.Tasks[i])
			continue
		}
		w.note(jobs[i])
		w.accepted(jobs[i], result.Status, result.Task, fmt.Append(nil, result.Error))
	}
	return open, next
}

func (w *workload) note(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, j)
}

// any is one of the newer jobs, nil if there is none.
func (w *workload) any(random *rand.Rand) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.jobs) == 0 {
		return nil
	}
	return w.jobs[len(w.jobs)-1-random.IntN(min(len(w.jobs), 40))]
}

func (w *workload) cancel(j *job) {
	j.mu.Lock()
	j.asked = true
	known := j.accepted
	j.mu.Unlock()
	during, status, body := w.tell(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.CancelTaskWithResponse(ctx, j.id, nil)
	})
	shown, ok := w.taskIn("cancelling", j, known, status, body)
	j.mu.Lock()
	defer j.mu.Unlock()
	if ok {
		j.answers = append(j.answers, during)
		j.cancels = append(j.cancels, answered{at: during.until, attempt: shown.Attempt, state: shown.State})
	}
}

// change gives a task a payload with a higher version. Another client waits with its change until this one is answered: otherwise the first one
// might arrive last.
func (w *workload) change(j *job) {
	j.changing.Lock()
	defer j.changing.Unlock()
	j.mu.Lock()
	j.version++
	version, known := j.version, j.accepted
	j.mu.Unlock()
	during, status, body := w.tell(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.ChangeTaskWithResponse(ctx, j.id, nil, wire.TaskChange{Payload: w.payload(j, version)})
	})
	shown, ok := w.taskIn("changing", j, known, status, body)
	j.mu.Lock()
	defer j.mu.Unlock()
	if ok {
		j.answers = append(j.answers, during)
		j.changes = append(j.changes, answered{at: during.until, attempt: shown.Attempt, version: version})
	}
}

// move asks a task to move to a member, or to any other one if that is "". It is refused unless a handler runs the task
// that can give it up, and the member can run it.
func (w *workload) move(j *job, to string) {
	j.mu.Lock()
	j.moving++
	known := j.accepted
	j.mu.Unlock()
	var node *string
	for _, m := range w.members {
		if m.name == to {
			node = &m.current().ID
		}
	}
	during, status, body := w.tell(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.MoveTaskWithResponse(ctx, j.id, nil, wire.TaskMove{To: node})
	})
	if status == http.StatusBadRequest && node != nil { // the member has gone, or is the one that runs the task
		return
	}
	if _, ok := w.taskIn("moving", j, known, status, body); ok {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.answers = append(j.answers, during)
		j.movesTo = append(j.movesTo, to)
	}
}

// taskIn is the task of an answer; false if the request came too late, or before the submission. known: the job was accepted before.
func (w *workload) taskIn(what string, j *job, known bool, status int, body []byte) (wire.Task, bool) {
	var shown wire.Task
	switch status {
	case http.StatusConflict:
	case http.StatusNotFound:
		if known && !w.past.wasFull() {
			j.miss(fmt.Sprintf("%s %s, which was accepted, was answered by %d: %s", what, j.id, status, body))
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

// miss notes an answer that says that the task is not there.
func (j *job) miss(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.missed = append(j.missed, text)
}

// answer is one of the generated answers.
type answer interface {
	StatusCode() int
	GetBody() []byte
}

// ask sends a request to one node after another until one says yes or no: an error of the server, or no answer, says neither. It returns 0
// if the round lasts too long.
func (r *round) ask(send func(context.Context, *client.ClientWithResponses) (answer, error)) (status int, body []byte) {
	for {
		a, err := send(r.ctx, r.anyAPI())
		if err == nil && a.StatusCode() < http.StatusInternalServerError {
			return a.StatusCode(), a.GetBody()
		}
		if clock.Sleep(r.ctx, askAgain) != nil {
			return 0, fmt.Appendf(nil, "no answer: %v", err)
		}
	}
}

func ptr[T any](v T) *T { return &v }
