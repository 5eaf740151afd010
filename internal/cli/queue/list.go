package queue

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	return &cobra.Command{
		Use: "list", Short: "List the queues", Args: command.ExactArgs(),
		Annotations: command.Asks("listQueues"),
		Long: `list lists all queues that ever got a task, that a worker serves or has served, or that have a capacity.

The columns are: name, state, waiting, size, pending, active, archived, processed, failed, latency, capacity,
paused_by, oldest, begun, ended, bad, late_p99, paused_at, note. A terminal gets what fits it.

Waiting is how many tasks are due and wait until the queue has room, or a worker that serves it. Size is how many are in
it: pending ones wait for a worker, active ones are taken by one, archived ones are dead letters. Processed and failed
count since midnight (UTC). Latency is how long the oldest pending one has waited. Capacity is how many may be waiting
and pending together, if not any number. Oldest is for how long the first of the tasks that wait, here or in asynq, has
been due. Begun, ended and bad are attempts a minute in the last one to two minutes; bad ones failed, timed out or were
lost. 99 of 100 attempts of the last five minutes began within late_p99 after they were due. Note is why it is paused.`,
		Example: `  dtsctl queue list`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listRun(cmd.Context(), opts) },
	}
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := rest.Read[wire.QueueList](c.ListQueuesWithResponse(ctx))
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	return opts.Printer.Show(answer.Raw, func() error {
		columns := listColumns
		if opts.Printer.OutIsTerminal {
			columns = terminalColumns
		}
		return printer.PrintTable(opts.Printer, columns, answer.Value.Queues)
	})
}

var listColumns = slices.Concat(
	[]column{nameColumn, stateColumn, waitingColumn},
	[]column{{Name: "size", Value: func(q wire.Queue) any { return q.Size }}},
	[]column{pendingColumn, activeColumn},
	[]column{
		{Name: "archived", Value: func(q wire.Queue) any { return q.Archived }},
		{Name: "processed", Value: func(q wire.Queue) any { return q.Processed }},
		{Name: "failed", Value: func(q wire.Queue) any { return q.Failed }},
		{Name: "latency", Value: func(q wire.Queue) any { return q.Latency }},
	},
	[]column{capacityColumn, pausedByColumn, oldestColumn},
	paceColumns(""),
	[]column{
		{Name: "paused_at", Value: func(q wire.Queue) any { return q.PausedAt }},
		{Name: "note", Value: func(q wire.Queue) any { return q.PauseNote }},
	},
)

// terminalColumns are those that fit a terminal.
var terminalColumns = slices.Concat(
	[]column{nameColumn, stateColumn, waitingColumn, pendingColumn, activeColumn, oldestColumn},
	paceColumns("/min"),
	[]column{capacityColumn},
	[]column{
		{Name: "paused", Value: func(q wire.Queue) any { return q.PausedAt }}, // a terminal shows how long ago
		pausedByColumn,
		{Name: "note", Value: func(q wire.Queue) any { return printer.Remark(printer.Deref(q.PauseNote)) }},
	},
)

type column = printer.Column[wire.Queue]

var (
	nameColumn  = column{Name: "name", Value: func(q wire.Queue) any { return q.Name }}
	stateColumn = column{Name: "state", Value: func(q wire.Queue) any {
		if q.Paused {
			return printer.Status("paused")
		}
		return printer.Status("open")
	}}
	waitingColumn  = column{Name: "waiting", Value: func(q wire.Queue) any { return q.Waiting }}
	pendingColumn  = column{Name: "pending", Value: func(q wire.Queue) any { return q.Pending }}
	activeColumn   = column{Name: "active", Value: func(q wire.Queue) any { return q.Active }}
	capacityColumn = column{Name: "capacity", Value: func(q wire.Queue) any {
		if c := cmp.Or(q.Capacity, q.Limit); c != nil { // nodes of earlier releases answer limit only
			return *c
		}
		return ""
	}}
	pausedByColumn = column{Name: "paused_by", Value: func(q wire.Queue) any { return q.PausedBy }}
	oldestColumn   = column{Name: "oldest", Value: func(q wire.Queue) any { return wire.Value(q.Oldest) }}
)

// paceColumns are what a queue did lately; unit is that of its rates, behind their names.
func paceColumns(unit string) []column {
	rate := func(name string, of func(wire.Pace) float64) column {
		return column{Name: name + unit, Value: func(q wire.Queue) any { return printer.Rate(of(wire.Value(q.Pace))) }}
	}
	return []column{
		rate("begun", func(p wire.Pace) float64 { return p.Begun }),
		rate("ended", func(p wire.Pace) float64 { return p.Ended }),
		rate("bad", func(p wire.Pace) float64 { return p.Bad }),
		{Name: "late_p99", Value: func(q wire.Queue) any { return wire.Value(q.Pace).LateP99 }},
	}
}
