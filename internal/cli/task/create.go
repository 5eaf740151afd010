package task

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/taskview"
)

// createOptions is what every command that creates a task can be told, whatever the task's type.
type createOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
	Stdin   io.Reader
	Times   flags.Times

	Due       flags.Due
	Execution flags.Execution
	ID        *string
	Owner     *string
	Labels    []string
	OnEnd     *string
	Once      *string
	Wait      bool
}

func newCreateOptions(f *command.Factory) createOptions {
	return createOptions{Client: f.Client, Printer: f.Printer, Stdin: f.In, Times: flags.TimesOf(f)}
}

func (opts *createOptions) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	opts.Due.Bind(set)
	flags.String(set, &opts.ID, "id", "its id; with one, the same submission can be repeated safely (default: the server makes one)")
	opts.Execution.Bind(set)
	flags.String(set, &opts.Owner, "owner", "who is responsible for it")
	set.StringArrayVar(&opts.Labels, "label", nil, "a label, as NAME=VALUE; may be repeated")
	flags.String(set, &opts.OnEnd, "on-end",
		`the task that follows it, as JSON: {"when": "succeeded, failed or ended", "task": {...}}; @FILE reads a file`)
	flags.String(set, &opts.Once, "once",
		"what becomes of it while tasks with the same key are there, as MODE:KEY, with commas and settings behind it: "+
			"singleton:KEY, latest:KEY, debounce:KEY,wait=5s,max=1m, throttle:KEY,every=1m,excess=delay or cancel_running:KEY")
	set.BoolVar(&opts.Wait, "wait", false, "wait for its end, as \"dtsctl task wait\" does")
}

// submission returns the task as the API takes it. The server chooses what no flag names.
func (opts *createOptions) submission(taskType string, payload json.RawMessage) (wire.Submission, error) {
	runAt, delay, err := opts.Due.Resolve(opts.Times)
	if err != nil {
		return wire.Submission{}, err
	}
	labels, err := flags.Labels("--label", opts.Labels)
	if err != nil {
		return wire.Submission{}, err
	}
	next, err := opts.followUp()
	if err != nil {
		return wire.Submission{}, err
	}
	once, err := flags.Once("--once", opts.Once)
	if err != nil {
		return wire.Submission{}, err
	}
	prefer, err := opts.Execution.Reach.Prefer()
	if err != nil {
		return wire.Submission{}, err
	}
	route, err := opts.Execution.Reach.Route()
	if err != nil {
		return wire.Submission{}, err
	}
	return wire.Submission{
		ID: opts.ID, Type: taskType, Payload: payload, RunAt: runAt, Delay: delay,
		Queue: opts.Execution.Queue, Retry: opts.Execution.Retry(), Timeout: flags.DurationText(opts.Execution.Timeout),
		Retention: flags.DurationText(opts.Execution.Retention), Owner: opts.Owner, Labels: labels,
		StartBy: flags.DurationText(opts.Execution.StartBy), OnEnd: next, Once: once,
		Priority: opts.Execution.Precedence.Priority, FairKey: opts.Execution.Precedence.FairKey,
		FairWeight: opts.Execution.Precedence.FairWeight, LimitKey: opts.Execution.Precedence.LimitKey,
		Cost:  opts.Execution.Precedence.Cost,
		Slots: opts.Execution.Reach.Slots, Select: opts.Execution.Reach.Select, Prefer: prefer, Route: route,
	}, nil
}

// followUp reads --on-end; nil if it is not given.
func (opts *createOptions) followUp() (*wire.FollowUp, error) {
	raw, err := flags.JSON(opts.Stdin, "--on-end", opts.OnEnd)
	if err != nil || raw == nil {
		return nil, err
	}
	var next wire.FollowUp
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&next); err != nil {
		return nil, command.Usagef(
			`--on-end: %v; want {"when": "failed", "task": {"type": "http", "payload": {...}}}`, err)
	}
	return &next, nil
}

// createRun submits a task and prints it: only its id in a pipe.
func createRun(ctx context.Context, opts *createOptions, taskType string, payload json.RawMessage) error {
	submission, err := opts.submission(taskType, payload)
	if err != nil {
		return err
	}
	body, err := rest.Body(submission)
	if err != nil {
		return err
	}
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.SubmitTaskParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.Task](c.SubmitTaskWithBodyWithResponse(ctx, params, rest.JSONType, body))
	if err != nil {
		return err
	}
	p, task := opts.Printer, answer.Value
	p.Warn(rest.Troubles(task))
	if opts.Wait {
		return taskview.Wait(ctx, taskview.WaitOptions{
			Client: c, Printer: p, ID: task.ID, Unnamed: printer.Deref(opts.ID) == "",
		})
	}
	return p.Show(answer.Raw, func() error {
		switch {
		case !p.OutIsTerminal:
			return p.Printf("%s\n", task.ID)
		case task.Once != nil && task.Once.Outcome != nil:
			return p.Printf("%s\n", onceSentence(p, task))
		case answer.Status == http.StatusOK:
			return p.Printf("%s, as it was submitted before\n", taskview.Sentence(p, task))
		}
		return p.Printf("%s\n", taskview.Sentence(p, task))
	})
}

// onceSentence says what became of a submission with a key.
func onceSentence(p *printer.Printer, t wire.Task) string {
	text := taskview.Sentence(p, t)
	switch after := printer.Deref(t.Once.After); wire.Value(t.Once.Outcome) {
	case wire.OnceExisting:
		return text + ": the submission is this task, which was there"
	case wire.OnceReplaced:
		return text + ": it has become the submission"
	case wire.OnceSkipped:
		return text + ": the submission is skipped, the next one may start at " + p.Text(t.Once.Next)
	case wire.OnceDelayed:
		if after != "" {
			return t.ID + " waits for the end of " + after
		}
	}
	return text
}
