package lock

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
)

type listOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Window flags.Window
}

func newListCommand(f *command.Factory) *cobra.Command {
	opts := &listOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "list", Short: "List the locks that are held", Args: command.ExactArgs(),
		Annotations: command.Asks("listLocks"),
		Long: `list lists the locks of a namespace that somebody holds, by name.

The columns are: name, holder, fence, since, expires, note. The holder is the host, the process and something random;
since is when it got the lock; expires is when the lock is free if the holder does not renew it.`,
		Example: `  dtsctl lock list
  dtsctl lock list --all -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.Window.Check(); err != nil {
				return err
			}
			return listRun(cmd.Context(), opts)
		},
	}
	opts.Window.Bind(cmd.Flags())
	return cmd
}

func listRun(ctx context.Context, opts *listOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := client.ListLocksParams{Namespace: c.Namespace}
	read := func(limit int, cursor *string) (json.RawMessage, error) {
		params.Limit, params.Cursor = &limit, cursor
		answer, err := rest.Read[wire.LockList](c.ListLocksWithResponse(ctx, &params))
		return answer.Raw, err
	}
	_, err = command.ListPages(opts.Printer, opts.Window.Window, "locks", read, listColumns)
	return err
}

var listColumns = []printer.Column[wire.Lock]{
	{Name: "name", Value: func(l wire.Lock) any { return l.Name }},
	{Name: "holder", Value: func(l wire.Lock) any { return l.Holder }},
	{Name: "fence", Value: func(l wire.Lock) any { return l.Fence }},
	{Name: "since", Value: func(l wire.Lock) any { return l.Since }},
	{Name: "expires", Value: func(l wire.Lock) any { return l.ExpiresAt }},
	{Name: "note", Value: func(l wire.Lock) any { return printer.Remark(printer.Deref(l.Note)) }},
}
