package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newCancelCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID...", Short: "Cancel tasks", Args: ids,
		Long: `cancel cancels tasks. One that has not begun is cancelled at once. A running one is asked to stop: its state is
"cancelled" once it has stopped, so wait for that with "dtsctl task wait". Cancelling a cancelled task is harmless.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.`,
		Example: `  dtsctl task cancel nightly
  dtsctl task list --state scheduled --queue reports --all | cut -f 1 | xargs dtsctl task cancel`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.changeEach(cmd.Context(), args, func(ctx context.Context, c *client.ClientWithResponses, id string) (reply, error) {
				return c.CancelTaskWithResponse(ctx, id, &client.CancelTaskParams{Namespace: s.namespaceParam()})
			})
		},
	}
}

func newRetryCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "retry ID...", Short: "Run ended tasks again", Args: ids,
		Long: `retry puts tasks that have ended, well or badly, back on schedule, due now. A task's attempts go on counting, and
it gets as many more as it had at first.

All of the tasks are tried; the exit code is 1 if any was refused. A pipe gets a line for each: its id and state.`,
		Example: `  dtsctl task retry nightly
  dtsctl task list --state failed --all | cut -f 1 | xargs dtsctl task retry`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.changeEach(cmd.Context(), args, func(ctx context.Context, c *client.ClientWithResponses, id string) (reply, error) {
				return c.RetryTaskWithResponse(ctx, id, &client.RetryTaskParams{Namespace: s.namespaceParam()})
			})
		},
	}
}

// changeEach does the same to every task.
func (s *session) changeEach(
	ctx context.Context, ids []string, change func(context.Context, *client.ClientWithResponses, string) (reply, error),
) error {
	c, err := s.calls()
	if err != nil {
		return err
	}
	return s.forEach(ids, func(id string) error {
		a, err := ask[client.Task](change(ctx, c, id))
		if err != nil {
			return err
		}
		return s.showTask(a)
	})
}

// forEach does something about each of several things. A refusal of one does not hold back the others; any other
// error does.
func (s *session) forEach(ids []string, do func(id string) error) error {
	var refused error
	for _, id := range ids {
		err := do(id)
		var no *refusal
		switch {
		case errors.As(err, &no):
			s.sayAbout(ids, id, no)
			refused = errFailed
		case err != nil:
			return err
		}
	}
	return refused
}

// sayAbout tells why something was refused, and about which it was where there are several.
func (s *session) sayAbout(ids []string, id string, no *refusal) {
	if len(ids) == 1 {
		s.say("%v", no)
		return
	}
	s.say("%s: %v", id, no)
}

type updateOptions struct {
	due
	session *session
	queue   string
	payload string
}

func newUpdateCommand(s *session) *cobra.Command {
	o := updateOptions{session: s}
	cmd := &cobra.Command{
		Use: "update ID", Short: "Change a task that waits", Args: named("ID"),
		Long: `update changes the time, queue or payload of a task that is "scheduled"; what is not named stays as it is.`,
		Example: `  dtsctl task update nightly --delay 1h
  dtsctl task update nightly --at 2026-01-02T03:00:00Z --queue critical
  dtsctl task update nightly --payload @job.json`,
	}
	flags := cmd.Flags()
	o.due.bind(flags)
	flags.StringVar(&o.queue, "queue", "", "the queue it goes through")
	flags.StringVar(&o.payload, "payload", "", "what the executor gets: JSON, @FILE, or @- for standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) }
	return cmd
}

func (o *updateOptions) run(cmd *cobra.Command, id string) error {
	flags := cmd.Flags()
	runAt, delay, err := o.due.resolve(flags, o.session.Zone)
	if err != nil {
		return err
	}
	payload, err := o.session.payloadFrom(flags, o.payload)
	if err != nil {
		return err
	}
	change := client.TaskChange{RunAt: runAt, Delay: delay, Queue: given(flags, "queue", o.queue), Payload: payload}
	if runAt == nil && delay == nil && change.Queue == nil && payload == nil {
		return usagef("nothing to change: give --at, --delay, --queue or --payload")
	}
	a, err := o.session.change(cmd.Context(), id, change)
	if err != nil {
		return err
	}
	return o.session.showTask(a)
}

func (s *session) change(ctx context.Context, id string, change client.TaskChange) (answer[client.Task], error) {
	c, err := s.calls()
	if err != nil {
		return answer[client.Task]{}, err
	}
	body, err := bodyOf(change)
	if err != nil {
		return answer[client.Task]{}, err
	}
	return ask[client.Task](c.ChangeTaskWithBodyWithResponse(ctx, id, &client.ChangeTaskParams{Namespace: s.namespaceParam()}, jsonType, body))
}
