package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

// spec is what can be said about any new task, whatever its type.
type spec struct {
	due
	handling
	flags  *pflag.FlagSet
	id     string
	owner  string
	labels []string
	wait   bool
}

// handling is how a task is treated, whoever creates it.
type handling struct {
	queue       string
	maxAttempts int
	timeout     time.Duration
	retention   time.Duration
	retryDelays []time.Duration
}

func (h *handling) bind(flags *pflag.FlagSet) {
	flags.StringVar(&h.queue, "queue", "", "the queue it goes through")
	flags.IntVar(&h.maxAttempts, "max-attempts", 0, "how often it is tried; 1 means at most once")
	flags.DurationVar(&h.timeout, "timeout", 0, "how long one attempt may take")
	flags.DurationVar(&h.retention, "retention", 0, "how long it is kept after its end")
	flags.DurationSliceVar(&h.retryDelays, "retry-delays", nil, "the waits before attempt 2, 3, ..., as 1m,5m,10m; the last one is repeated")
}

// due is when a task is due.
type due struct {
	at    string
	delay time.Duration
}

func (d *due) bind(flags *pflag.FlagSet) {
	flags.StringVar(&d.at, "at", "", "when it is due, in RFC 3339 or as local \"2006-01-02 15:04[:05]\"")
	flags.DurationVar(&d.delay, "delay", 0, "how long until it is due")
}

func (p *spec) bind(cmd *cobra.Command) {
	p.flags = cmd.Flags()
	p.due.bind(p.flags)
	p.flags.StringVar(&p.id, "id", "", "its id; with one, the same submission can be repeated without harm (default: the server makes one)")
	p.handling.bind(p.flags)
	p.flags.StringVar(&p.owner, "owner", "", "who answers for it")
	p.flags.StringArrayVar(&p.labels, "label", nil, "a label, as NAME=VALUE; may be repeated")
	p.flags.BoolVar(&p.wait, "wait", false, "wait for its end, as \"dtsctl task wait\" does")
}

// submission is the task as the API takes it. What was not said is left to the server.
func (p *spec) submission(s *session, typ string, payload json.RawMessage) (client.Submission, error) {
	runAt, delay, err := p.due.resolve(p.flags, s.Zone)
	if err != nil {
		return client.Submission{}, err
	}
	labels, err := pairs("--label", "=", p.labels)
	if err != nil {
		return client.Submission{}, err
	}
	return client.Submission{
		ID: given(p.flags, "id", p.id), Type: typ, Payload: payload, Queue: given(p.flags, "queue", p.queue),
		RunAt: runAt, Delay: delay, Retry: p.retry(p.flags), Timeout: given(p.flags, "timeout", p.timeout.String()),
		Retention: given(p.flags, "retention", p.retention.String()), Owner: given(p.flags, "owner", p.owner),
		Labels: (*client.Labels)(labels),
	}, nil
}

func (h *handling) retry(flags *pflag.FlagSet) *client.Retry {
	if !flags.Changed("max-attempts") && !flags.Changed("retry-delays") {
		return nil
	}
	r := client.Retry{MaxAttempts: given(flags, "max-attempts", h.maxAttempts)}
	for _, d := range h.retryDelays {
		r.Delays = append(r.Delays, d.String())
	}
	return &r
}

// resolve is the two ways to say when a task is due, as the API takes them.
func (d *due) resolve(flags *pflag.FlagSet, zone *time.Location) (*time.Time, *string, error) {
	if flags.Changed("at") && flags.Changed("delay") {
		return nil, nil, usagef("--at and --delay: give one of them, not both")
	}
	if d.delay < 0 {
		return nil, nil, usagef("--delay: %s is negative", d.delay)
	}
	if !flags.Changed("at") {
		return nil, given(flags, "delay", d.delay.String()), nil
	}
	at, err := parseTime("--at", d.at, zone)
	return &at, nil, err
}

// given is the value of a flag, nil if it was not on the command line.
func given[T any](flags *pflag.FlagSet, name string, value T) *T {
	if !flags.Changed(name) {
		return nil
	}
	return &value
}

// pairs reads NAME=VALUE texts; nil if there are none.
func pairs(flag, separator string, texts []string) (*map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, separator)
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, usagef("%s: %q must be NAME%sVALUE", flag, text, separator)
		}
		m[name] = value
	}
	return &m, nil
}

// submit submits the task and prints it: its id where the reader is a script.
func (p *spec) submit(ctx context.Context, s *session, typ string, payload json.RawMessage) error {
	task, err := p.submission(s, typ, payload)
	if err != nil {
		return err
	}
	a, err := s.submit(ctx, task)
	if err != nil {
		return err
	}
	if p.wait {
		if p.id == "" {
			s.tell("submitted %s", a.value.ID) // else nobody would know, should the waiting be interrupted
		}
		return s.waitFor(ctx, a.value.ID, 0)
	}
	return s.show(a.raw, func() error {
		if !s.OutIsTerminal {
			return s.printf("%s\n", a.value.ID)
		}
		if a.status == http.StatusOK {
			return s.printf("%s, as it was submitted before\n", s.summaryOf(a.value))
		}
		return s.printf("%s\n", s.summaryOf(a.value))
	})
}

func (s *session) submit(ctx context.Context, task client.Submission) (answer[client.Task], error) {
	c, err := s.calls()
	if err != nil {
		return answer[client.Task]{}, err
	}
	body, err := bodyOf(task)
	if err != nil {
		return answer[client.Task]{}, err
	}
	return ask[client.Task](c.SubmitTaskWithBodyWithResponse(ctx, &client.SubmitTaskParams{Namespace: s.namespaceParam()}, jsonType, body))
}
