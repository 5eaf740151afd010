// Package peer is what the programs that bench measures side by side have in common: each is one process that submits
// tasks and runs them, as the bench asks for over standard input and output.
//
// The bench sends a line of JSON for each step, and the program answers with one line when the step is done. Before the
// first step, it runs tasks that nobody measures, so that code is compiled and connections stand, as in a program that
// has run for a while. Then it stops its worker, and answers once. It ends when its input does.
//
//	{"do": "submit", "batch": 1, "due": 0}    submits all tasks; batch is how many are in one call, due a time in Unix ms
//	{"do": "work"}                            starts the worker, and answers when it takes tasks
//	{"do": "await"}                           waits until all tasks have run and the server says that all have ended
//	{"do": "check"}                           counts the tasks that have ended well, as the server has them
package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	// Concurrency is the number of tasks that a program runs at once.
	Concurrency = 64
	// Queue is the queue of all tasks.
	Queue = "default"

	submitters     = 64 // that submit one task in each call, at once
	bulkSubmitters = 8  // that submit many tasks in each call, at once
)

// Program is a program that uses one library. due is the zero time for tasks that are due at once.
type Program struct {
	// Payload is the payload for a text of TextSize, which has 200 bytes as JSON.
	Payload  func(text string) string
	TextSize int
	// Submit submits a task.
	Submit func(ctx context.Context, payload string, due time.Time) error
	// SubmitMany is nil if the library has no such call.
	SubmitMany func(ctx context.Context, payloads []string, due time.Time) error
	// Work starts a worker that calls handled once in each handler, and returns when it takes tasks. stop ends the worker.
	Work func(ctx context.Context, handled func()) (stop func() error, err error)
	// Ended is how many tasks have ever ended, as the server has it. It is asked every Poll, once all handlers were
	// called.
	Ended func(ctx context.Context) (int, error)
	Poll  time.Duration
	// Succeeded counts the tasks that have ended well, after the measurement. Error: there are others.
	Succeeded func(ctx context.Context) (int, error)
}

// request is a step that the bench asks for.
type request struct {
	Do    string `json:"do"`
	Batch int    `json:"batch"`
	Due   int64  `json:"due"` // Unix ms; 0: at once
}

// answer is what came of a step. Times are in seconds since 1970.
type answer struct {
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds,omitempty"` // that the submissions took
	First   float64 `json:"first,omitempty"`   // when the first handler was called
	Last    float64 `json:"last,omitempty"`    // when the server was seen to have all tasks as ended
	Handled int64   `json:"handled,omitempty"` // calls of handlers
	Ended   int     `json:"ended,omitempty"`
}

// Main runs a program. Its arguments are the address of its server, the number of tasks, and that of the tasks before.
// It returns when the input has ended.
func Main(open func(ctx context.Context, url string) (Program, error)) {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(
	ctx context.Context, args []string, in io.Reader, out io.Writer, open func(context.Context, string) (Program, error),
) error {
	if len(args) != 3 {
		return errors.New("the arguments are the address of the server, the number of tasks, and that of tasks before")
	}
	tasks, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	before, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	p, err := open(ctx, args[0])
	if err != nil {
		return err
	}
	r := &runner{Program: p}
	if err := r.warmUp(ctx, before); err != nil {
		return err
	}
	r.expect(tasks)
	answers := json.NewEncoder(out)
	if err := answers.Encode(answer{}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var step request
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			return err
		}
		a, err := r.do(ctx, step)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// runner takes the steps of a program.
type runner struct {
	Program
	before   int      // tasks that were there before payloads
	payloads []string // of the tasks that are expected now
	seen     atomic.Pointer[tally]
}

// tally counts the calls of handlers.
type tally struct {
	want    int64
	handled atomic.Int64
	first   atomic.Int64  // Unix us
	done    chan struct{} // closed when all handlers were called
}

// expect makes payloads of n tasks, which are counted from now on.
func (r *runner) expect(n int) {
	r.before += len(r.payloads)
	r.payloads = nil
	for range n {
		r.payloads = append(r.payloads, r.Payload(text(r.TextSize)))
	}
	r.seen.Store(&tally{want: int64(n), done: make(chan struct{})})
}

// warmUp submits and runs n tasks in each way that is measured.
func (r *runner) warmUp(ctx context.Context, n int) error {
	batches := []int{1}
	if r.SubmitMany != nil {
		batches = append(batches, 1000)
	}
	for _, batch := range batches {
		r.expect(n / len(batches))
		if err := r.submit(ctx, batch, time.Time{}); err != nil {
			return err
		}
		stop, err := r.Work(ctx, r.count)
		if err != nil {
			return err
		}
		_, err = r.await(ctx)
		if err := errors.Join(err, stop()); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) do(ctx context.Context, step request) (answer, error) {
	switch step.Do {
	case "submit":
		var due time.Time
		if step.Due != 0 {
			due = time.UnixMilli(step.Due)
		}
		begin := clock.Now()
		err := r.submit(ctx, step.Batch, due)
		return answer{Seconds: clock.Since(begin).Seconds()}, err
	case "work":
		_, err := r.Work(ctx, r.count)
		return answer{}, err
	case "await":
		return r.await(ctx)
	case "check":
		ended, err := r.Succeeded(ctx)
		return answer{Handled: r.seen.Load().handled.Load(), Ended: ended - r.before}, err
	}
	return answer{}, fmt.Errorf("unknown step %q", step.Do)
}

// submit submits all tasks, batch of them in each call.
func (r *runner) submit(ctx context.Context, batch int, due time.Time) error {
	tasks := len(r.payloads)
	if batch == 1 {
		return share(ctx, tasks, submitters, func(ctx context.Context, i int) error {
			return r.Submit(ctx, r.payloads[i], due)
		})
	}
	calls := (tasks + batch - 1) / batch
	return share(ctx, calls, bulkSubmitters, func(ctx context.Context, i int) error {
		return r.SubmitMany(ctx, r.payloads[i*batch:min(tasks, (i+1)*batch)], due)
	})
}

// share calls f for 0 to n-1 from a number of goroutines.
func share(ctx context.Context, n, callers int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for c := range callers {
		g.Go(func() error {
			for i := c; i < n; i += callers {
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// count notes that a handler was called.
func (r *runner) count() {
	t := r.seen.Load()
	n := t.handled.Add(1)
	if n == 1 {
		t.first.Store(clock.Now().UnixMicro())
	}
	if n == t.want {
		close(t.done)
	}
}

// await waits for all handlers, and then for the server to have all tasks as ended.
func (r *runner) await(ctx context.Context) (answer, error) {
	t := r.seen.Load()
	select {
	case <-t.done:
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	for {
		ended, err := r.Ended(ctx)
		if err != nil {
			return answer{}, err
		}
		if ended -= r.before; ended >= len(r.payloads) {
			return answer{First: seconds(t.first.Load()), Last: seconds(clock.Now().UnixMicro())}, nil
		}
		if err := clock.Sleep(ctx, r.Poll); err != nil {
			return answer{}, err
		}
	}
}

func seconds(micros int64) float64 { return float64(micros) / 1e6 }

// text returns n random letters and digits, which nothing can compress.
func text(n int) string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[rand.IntN(len(letters))]
	}
	return string(out)
}

// JSONString is a JSON string of 200 bytes for a text of StringText.
func JSONString(text string) string { return `"` + text + `"` }

// StringText is the length of the text of JSONString.
const StringText = 198
