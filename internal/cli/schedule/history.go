package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/diff"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

type historyOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	ID       string
	Revision *int // nil means all
}

func newHistoryCommand(f *command.Factory) *cobra.Command {
	opts := &historyOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "history ID", Short: "Show earlier definitions of a schedule", Args: command.ExactArgs("ID"),
		Annotations: command.Asks("listRevisions"),
		Long: `history shows the revisions of a schedule's definition, the newest first; the server keeps the newest 20. A terminal is
shown what each one changed, field by field. With --revision, it shows everything about that one.

A pipe gets a line for each: revision, from, until, changed, by. The revision decided about the ticks after from, up to and
including until; changed is the names of the fields that it changed.`,
		Example: `  dtsctl schedule history nightly
  dtsctl schedule history nightly --revision 3
  dtsctl schedule history nightly --revision 3 -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.ID = args[0]
			return historyRun(cmd.Context(), opts)
		},
	}
	flags.Int(cmd.Flags(), &opts.Revision, "revision", "only this revision")
	return cmd
}

func historyRun(ctx context.Context, opts *historyOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	answer, err := readRevisions(ctx, c, opts.ID)
	if err != nil {
		return err
	}
	opts.Printer.Warn(answer.Value.Warnings)
	revisions, err := comparedRevisions(answer)
	if err != nil {
		return err
	}
	if opts.Revision != nil {
		return showRevision(opts, revisions)
	}
	return opts.Printer.Show(answer.Raw, func() error { return printHistory(opts.Printer, revisions) })
}

// readRevisions reads all pages, as one.
func readRevisions(ctx context.Context, c *rest.Client, id string) (rest.Answer[wire.RevisionList], error) {
	type rawList struct {
		Warnings  []string          `json:"warnings,omitempty"`
		Revisions []json.RawMessage `json:"revisions"`
	}
	var all rest.Answer[wire.RevisionList]
	var allRaw rawList
	for params := (client.ListRevisionsParams{Namespace: c.Namespace}); ; {
		page, err := rest.Read[wire.RevisionList](c.ListRevisionsWithResponse(ctx, id, &params))
		if err != nil {
			return all, err
		}
		var raw rawList
		if err := json.Unmarshal(page.Raw, &raw); err != nil {
			return all, rest.Misunderstood(err)
		}
		all.Value.Revisions = append(all.Value.Revisions, page.Value.Revisions...)
		allRaw.Revisions, allRaw.Warnings = append(allRaw.Revisions, raw.Revisions...), append(allRaw.Warnings, raw.Warnings...)
		if params.Cursor = page.Value.NextCursor; params.Cursor == nil {
			all.Value.Warnings = allRaw.Warnings
			all.Raw, err = wire.Encode(allRaw)
			return all, err
		}
	}
}

// comparedRevision is a revision with what it changed.
type comparedRevision struct {
	wire.Revision
	raw      json.RawMessage // all of it, as the server sent it
	changes  []manifest.Change
	compared bool // the revision before it is known
}

// comparedRevisions compares each revision with the one before it.
func comparedRevisions(answer rest.Answer[wire.RevisionList]) ([]comparedRevision, error) {
	var raw struct{ Revisions []json.RawMessage }
	if err := json.Unmarshal(answer.Raw, &raw); err != nil {
		return nil, rest.Misunderstood(err)
	}
	revisions := make([]comparedRevision, len(answer.Value.Revisions))
	for i, r := range answer.Value.Revisions {
		revisions[i] = comparedRevision{Revision: r, raw: raw.Revisions[i]}
		if i+1 == len(revisions) || answer.Value.Revisions[i+1].Revision != r.Revision-1 { // the one before it is not there, or cannot be read
			continue
		}
		before, err := wire.Encode(answer.Value.Revisions[i+1].Definition)
		if err != nil {
			return nil, err
		}
		after, err := wire.Encode(r.Definition)
		if err != nil {
			return nil, err
		}
		if revisions[i].changes, err = manifest.Changes(before, after); err != nil {
			return nil, err
		}
		revisions[i].compared = true
	}
	return revisions, nil
}

func printHistory(p *printer.Printer, revisions []comparedRevision) error {
	if !p.OutIsTerminal {
		return printer.PrintTable(p, revisionColumns, revisions)
	}
	for _, r := range revisions {
		if err := printRevision(p, r); err != nil {
			return err
		}
	}
	return nil
}

var revisionColumns = []printer.Column[comparedRevision]{
	{Name: "revision", Value: func(r comparedRevision) any { return r.Revision.Revision }},
	{Name: "from", Value: func(r comparedRevision) any { return r.From }},
	{Name: "until", Value: func(r comparedRevision) any { return r.Until }},
	{Name: "changed", Value: func(r comparedRevision) any {
		var names printer.List
		for _, c := range r.changes {
			names = append(names, c.Name)
		}
		return names
	}},
	{Name: "by", Value: func(r comparedRevision) any { return r.By }},
}

// printRevision prints a revision and what it changed, for people.
func printRevision(p *printer.Printer, r comparedRevision) error {
	from := p.Text(printer.Timestamp(r.From))
	text := fmt.Sprintf("revision %d  in force since %s, %s", r.Revision.Revision, from, p.Relative(r.From.Time))
	if r.Until != nil {
		text = fmt.Sprintf("revision %d  from %s to %s", r.Revision.Revision, from, p.Text(printer.Timestamp(*r.Until)))
	}
	if r.By != nil {
		text += ", put by " + printer.Flat(*r.By)
	}
	if err := p.Printf("%s\n", text); err != nil {
		return err
	}
	if !r.compared && r.Revision.Revision > 1 {
		return p.Printf("  its changes are unknown: the revision before it is forgotten\n")
	}
	return diff.Print(p, r.changes)
}

// showRevision prints everything about the revision that is wanted.
func showRevision(opts *historyOptions, revisions []comparedRevision) error {
	p, number := opts.Printer, *opts.Revision
	i := slices.IndexFunc(revisions, func(r comparedRevision) bool { return r.Revision.Revision == number })
	if i < 0 {
		p.Errorf("%s has no revision %d, or no longer remembers it", opts.ID, number)
		return command.ErrReported
	}
	r := revisions[i]
	return p.Show(r.raw, func() error {
		definition, err := wire.Encode(r.Definition)
		if err != nil {
			return err
		}
		fields, err := manifest.Fields(definition)
		if err != nil {
			return err
		}
		details := []printer.Detail{
			{Name: "revision", Value: number}, {Name: "from", Value: printer.Timestamp(r.From)}, {Name: "until", Value: printer.OptionalTimestamp(r.Until)},
			{Name: "by", Value: r.By},
		}
		for _, f := range fields {
			details = append(details, printer.Detail{Name: f.Name, Value: f.Value})
		}
		return p.PrintDetails(details)
	})
}
