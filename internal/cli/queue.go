package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newQueueCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "queue", Short: "Look at the queues, pause and resume them",
		Long:    `A queue is where tasks that are due wait for a worker.`,
		Example: "  dtsctl queue list\n  dtsctl queue pause reports",
	}
	cmd.AddCommand(newQueueListCommand(s), newPauseCommand(s), newResumeCommand(s))
	return beGroup(cmd)
}

func newQueueListCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the queues", Args: named(),
		Long: `list lists all queues that ever held a task.

The columns are: name, state, size, pending, active, archived, processed, failed, latency. Size is what is in it,
pending waits for a worker, active is taken by one, archived are dead letters; processed and failed count since
midnight (UTC); latency is how long the oldest one has waited.`,
		Example: `  dtsctl queue list`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.runQueues(cmd.Context()) },
	}
}

func (s *session) runQueues(ctx context.Context) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	a, err := ask[client.QueueList](c.ListQueuesWithResponse(ctx))
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error { return printTable(s, queueColumns, a.value.Queues) })
}

var queueColumns = []column[client.Queue]{
	{"name", func(q client.Queue) any { return q.Name }},
	{"state", func(q client.Queue) any {
		if q.Paused {
			return status("paused")
		}
		return status("open")
	}},
	{"size", func(q client.Queue) any { return q.Size }},
	{"pending", func(q client.Queue) any { return q.Pending }},
	{"active", func(q client.Queue) any { return q.Active }},
	{"archived", func(q client.Queue) any { return q.Archived }},
	{"processed", func(q client.Queue) any { return q.Processed }},
	{"failed", func(q client.Queue) any { return q.Failed }},
	{"latency", func(q client.Queue) any { return q.Latency }},
}

func newPauseCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "pause QUEUE", Short: "Let workers take nothing from a queue", Args: named("QUEUE"),
		Long: `pause keeps workers from taking tasks from the queue. What runs goes on, and tasks that are due go on lining up.
Pausing a paused queue is harmless.`,
		Example: `  dtsctl queue pause reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.steer(cmd.Context(), args[0], "paused", func(ctx context.Context, c *client.ClientWithResponses) (reply, error) {
				return c.PauseQueueWithResponse(ctx, args[0])
			})
		},
	}
}

func newResumeCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "resume QUEUE", Short: "Let workers take from a paused queue again", Args: named("QUEUE"),
		Long:    `resume ends the pause of a queue. Resuming a queue that is not paused is harmless.`,
		Example: `  dtsctl queue resume reports`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.steer(cmd.Context(), args[0], "resumed", func(ctx context.Context, c *client.ClientWithResponses) (reply, error) {
				return c.ResumeQueueWithResponse(ctx, args[0])
			})
		},
	}
}

// steer pauses or resumes a queue. There is nothing to print but for people.
func (s *session) steer(
	ctx context.Context, queue, done string, call func(context.Context, *client.ClientWithResponses) (reply, error),
) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	if _, err := ask[struct{}](call(ctx, c)); err != nil {
		return err
	}
	if s.OutIsTerminal && s.isTable() {
		return s.printf("%s %s\n", queue, done)
	}
	return nil
}
