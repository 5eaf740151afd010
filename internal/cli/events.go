package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

type eventsOptions struct {
	filters
	session *session
	task    string
}

func newEventsCommand(s *session) *cobra.Command {
	o := eventsOptions{session: s}
	cmd := &cobra.Command{
		Use: "events", Short: "Follow what happens to tasks, as it happens", Args: named(),
		Long: `events prints a line for everything that happens to tasks, until it is interrupted; then it ends with 0. It is a
live feed, not a record: what happened before, or while the connection was lost, is not shown. Standard error
tells when that was, and when events were dropped because nobody read them fast enough.

The fields of a line in a pipe are: at, type, namespace, task, state, attempt, queue, task type, node, owner, run_at,
progress, error.`,
		Example: `  dtsctl events
  dtsctl events --state failed -n '*' -o json
  dtsctl events --task nightly`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.bind(cmd)
	cmd.Flags().StringVar(&o.task, "task", "", "only of this task")
	return cmd
}

func (o *eventsOptions) run(ctx context.Context) error {
	s := o.session
	c, err := s.streams()
	if err != nil {
		return err
	}
	params := client.FollowEventsParams{
		Namespace: s.namespaceParam(), State: statesOf(o.states), Queue: orNil(o.queue), Type: orNil(o.typ),
		Owner: orNil(o.owner), Node: orNil(o.node), Schedule: orNil(o.schedule), Task: orNil(o.task),
	}
	again := false
	return orInterrupted(ctx, s.follow(ctx, feed{
		open: func(ctx context.Context) (*http.Response, error) { return c.FollowEvents(ctx, &params) },
		opened: func() {
			if again {
				s.say("connected again; what happened in between is not shown")
			}
		},
		lost: func(reason error) { again = true; s.sayLost(reason) },
		take: func(m client.Message) (bool, error) { return false, o.take(m) },
	}))
}

// take prints an event. Types that it does not know are events all the same.
func (o *eventsOptions) take(m client.Message) error {
	if m.Name == "dropped" {
		var d client.Dropped
		if err := json.Unmarshal(m.Data, &d); err != nil {
			return misunderstood(err)
		}
		o.session.say("%d events were dropped", d.Count)
		return nil
	}
	return o.session.showLine(m.Data, func() error {
		var e client.Event
		if err := json.Unmarshal(m.Data, &e); err != nil {
			return misunderstood(err)
		}
		return o.session.printEvent(e)
	})
}

func (s *session) printEvent(e client.Event) error {
	if s.OutIsTerminal {
		return s.printf("%s\n", s.sentenceOf(e))
	}
	var progress any
	if e.Progress != nil {
		progress = *e.Progress
	}
	return s.printTabbed([][]any{{
		e.At, e.Type, e.Namespace, e.Task, e.State, e.Attempt, e.Queue, e.TaskType, e.Node, e.Owner, e.RunAt, progress, e.Error,
	}})
}

// sentenceOf is an event for people: when, what, which task, and what there is to say about it.
func (s *session) sentenceOf(e client.Event) string {
	what := strings.TrimPrefix(e.Type, "task.")
	words := []string{
		e.At.In(s.Zone).Format("15:04:05.000"),
		s.coloured(status(what), fmt.Sprintf("%-10s", flat(what))),
		flat(e.Task),
	}
	if e.Attempt > 0 {
		words = append(words, fmt.Sprintf("attempt %d", e.Attempt))
	}
	if e.Progress != nil {
		words = append(words, fmt.Sprintf("%d %%", *e.Progress))
	}
	if e.RunAt != nil {
		words = append(words, "due "+relative(*e.RunAt, s.Now()))
	}
	if e.Node != nil {
		words = append(words, "on "+flat(*e.Node))
	}
	if e.Error != nil {
		words = append(words, "("+flat(*e.Error)+")")
	}
	return strings.Join(words, "  ")
}
