package control

import (
	"context"

	"github.com/dts-sched/dts/internal/store/tasks"
)

// LogQuery says which lines of a log to read.
type LogQuery = tasks.LogQuery

// LogPage is a part of a task's log.
type LogPage = tasks.LogPage

// Logs reads lines of a task's log; the page ends early when it is full. Errors: CodeTaskNotFound, CodeInvalid for a
// cursor.
func (c *Control) Logs(ctx context.Context, who Caller, id string, q LogQuery) (LogPage, error) {
	if _, err := c.begin(ctx, who, "readLogs", who.Ref(id)); err != nil {
		return LogPage{}, err
	}
	return c.store.Tasks.Logs(ctx, who.Ref(id), q)
}

// LogStart returns the cursor after which the lines of a query begin, for whoever follows a log. Errors: as Logs.
func (c *Control) LogStart(ctx context.Context, who Caller, id string, q LogQuery) (string, error) {
	if _, err := c.begin(ctx, who, "readLogs", who.Ref(id)); err != nil {
		return "", err
	}
	return c.store.Tasks.LogStart(ctx, who.Ref(id), q)
}
