// Package events is the command "dtsctl events".
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type eventsOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Filter flags.Filter
	Task   string   // "" means any
	About  []string // none means tasks
}

// NewCommand returns "dtsctl events".
func NewCommand(f *command.Factory) *cobra.Command {
	opts := &eventsOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "events", Short: "Follow what happens to tasks, schedules, workflows, queues, limits and nodes", Args: command.ExactArgs(),
		Annotations: command.Asks("followEvents"),
		Long: `events prints a line for everything that happens to tasks, until it is interrupted; then it ends with 0. With
--about, it also tells who paused a queue, set a limit, changed a schedule or put a workflow, and which nodes come and
go. It is a live stream, not a record: it lacks what happened before. After the connection was lost, the server sends
what has happened meanwhile, as far as it has kept that. Standard error tells when events were dropped, since when, and
why.

A filter narrows what has its field: with --about task,node --state failed, tasks that failed are printed, and all nodes.

The fields of a line in a pipe are: at, type, namespace, task, state, attempt, queue, task type, node, owner, run_at,
progress, error, progress_note. With --about there are seven more: schedule, revision, capacity, by, note, workflow,
limit.`,
		Example: `  dtsctl events
  dtsctl events --state failed -n '*' -o json
  dtsctl events --task nightly
  dtsctl events --about schedule,workflow,queue,limit,node -n '*'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return eventsRun(cmd.Context(), opts) },
	}
	opts.Filter.Bind(cmd)
	cmd.Flags().StringVar(&opts.Task, "task", "", "only of this task")
	flags.RefuseEmpty(cmd.Flags(), "task")
	cmd.Flags().StringSliceVar(&opts.About, "about", nil,
		"what to follow, separated by commas, or repeated: task, schedule, workflow, queue, limit, node (default task)")
	command.Complete(cmd, "about", string(wire.SubjectTask), string(wire.SubjectSchedule), string(wire.SubjectWorkflow),
		string(wire.SubjectQueue), string(wire.SubjectLimit), string(wire.SubjectNode))
	return cmd
}

func eventsRun(ctx context.Context, opts *eventsOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	filter := &opts.Filter
	params := client.FollowEventsParams{
		Namespace: c.Namespace, State: filter.States(), Queue: flags.NilIfZero(filter.Queue), Type: flags.NilIfZero(filter.Type),
		Owner: flags.NilIfZero(filter.Owner), Node: flags.NilIfZero(filter.Node), Schedule: flags.NilIfZero(filter.Schedule),
		Task: flags.NilIfZero(opts.Task), About: opts.subjects(),
	}
	p, reconnected := opts.Printer, false
	return command.UnlessInterrupted(ctx, c.Follow(ctx, rest.Stream{
		Open: func(ctx context.Context) (*http.Response, error) { return c.Streams.FollowEvents(ctx, &params) },
		Opened: func() {
			if reconnected && params.LastEventID == nil { // an older server, or one that has told nothing yet
				p.Errorf("connected again; what happened in between is not shown")
			}
		},
		Lost: func(reason error) { reconnected = true; p.Errorf("%s", c.LostText(reason)) },
		Take: func(m client.Message) (bool, error) {
			params.LastEventID = flags.NilIfZero(m.ID)
			return false, opts.take(m)
		},
	}))
}

// subjects are what to follow. The server judges the words.
func (o *eventsOptions) subjects() []wire.EventSubject {
	var subjects []wire.EventSubject
	for _, name := range o.About {
		subjects = append(subjects, wire.EventSubject(strings.TrimSpace(name)))
	}
	return subjects
}

// take prints an event, also one of a type that this program does not know.
func (o *eventsOptions) take(m client.Message) error {
	p := o.Printer
	if m.Name == "dropped" {
		var d wire.Dropped
		if err := json.Unmarshal(m.Data, &d); err != nil {
			return rest.Misunderstood(err)
		}
		p.Errorf("%s", droppedText(p, d))
		return nil
	}
	return p.ShowLine(m.Data, func() error {
		if isChange(m.Name) {
			var c wire.Change
			if err := json.Unmarshal(m.Data, &c); err != nil {
				return rest.Misunderstood(err)
			}
			return printChange(p, c)
		}
		var e wire.Event
		if err := json.Unmarshal(m.Data, &e); err != nil {
			return rest.Misunderstood(err)
		}
		return printEvent(p, e, len(o.About) > 0)
	})
}

// droppedText says how many events are missing, and why.
func droppedText(p *printer.Printer, d wire.Dropped) string {
	text := "events may have been dropped"
	if d.Count > 0 {
		text = fmt.Sprintf("%d events were dropped", d.Count)
	}
	switch d.Reason {
	case wire.DroppedSlowReader:
		text += ": they were not read fast enough"
	case wire.DroppedConnectionLost:
		text += ": the server lost its connection to Redis"
	case wire.DroppedUnreadable:
		text += ": the server could not read them"
	case wire.DroppedNotKept:
		text += ": they came while the connection was lost, and the server has not kept them"
	}
	if d.Since != nil {
		text += ", since " + p.Text(printer.Timestamp(*d.Since))
	}
	return text
}

// printEvent prints an event of a task. In a pipe, a wide line has the fields of changes, too, and leaves them empty.
func printEvent(p *printer.Printer, e wire.Event, wide bool) error {
	if p.OutIsTerminal {
		return p.Printf("%s\n", sentence(p, e))
	}
	line := []any{
		e.At, e.Type, e.Namespace, e.Task, e.State, e.Attempt, e.Queue, e.TaskType, e.Node, e.Owner, e.RunAt,
		cell(e.Progress), e.Error, e.ProgressNote,
	}
	if wide {
		line = append(line, "", "", "", "", "", "", "")
	}
	return p.PrintTabbed([][]any{line})
}

// cell is a number that may be missing.
func cell(number *int) any {
	if number == nil {
		return ""
	}
	return *number
}

// sentence returns an event for people: when, what, which task, and the details.
func sentence(p *printer.Printer, e wire.Event) string {
	what := strings.TrimPrefix(e.Type, "task.")
	words := []string{
		e.At.In(p.Zone).Format("15:04:05.000"),
		p.StatusText(printer.Status(what), printer.Pad(printer.Flat(what), 10)),
		printer.Flat(e.Task),
	}
	if e.Attempt > 0 {
		words = append(words, fmt.Sprintf("attempt %d", e.Attempt))
	}
	if e.Progress != nil {
		words = append(words, fmt.Sprintf("%d %%", *e.Progress))
	}
	if e.ProgressNote != nil {
		words = append(words, printer.Flat(*e.ProgressNote))
	}
	if e.RunAt != nil {
		words = append(words, "due "+p.Relative(e.RunAt.Time))
	}
	if e.Node != nil {
		words = append(words, "on "+printer.Flat(*e.Node))
	}
	if e.Error != nil {
		words = append(words, "("+printer.Flat(*e.Error)+")")
	}
	return strings.Join(words, "  ")
}
