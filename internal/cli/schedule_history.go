package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newHistoryCommand(s *session) *cobra.Command {
	revision := 0
	cmd := &cobra.Command{
		Use: "history ID", Short: "Show earlier definitions of a schedule", Args: named("ID"),
		Long: `history shows the revisions of a schedule's definition, the newest first; the newest 20 are remembered. A terminal is shown
what each one changed, field by field. With --revision, it is all about that one.

A pipe gets a line for each: revision, from, until, changed. The revision decided about the ticks after from, up to and
including until; changed is the names of the fields that it changed.`,
		Example: `  dtsctl schedule history nightly
  dtsctl schedule history nightly --revision 3
  dtsctl schedule history nightly --revision 3 -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("revision") {
				return s.runRevision(cmd.Context(), args[0], revision)
			}
			return s.runHistory(cmd.Context(), args[0])
		},
	}
	cmd.Flags().IntVar(&revision, "revision", 0, "only this revision")
	return cmd
}

// version is a revision, with its definition as the server sent it, and what it changed.
type version struct {
	client.Revision
	raw     json.RawMessage // all of it
	changes []change
	known   bool // the one before it is remembered
}

func (s *session) history(ctx context.Context, id string) (answer[client.RevisionList], []version, error) {
	c, err := s.calls()
	if err != nil {
		return answer[client.RevisionList]{}, nil, err
	}
	a, err := ask[client.RevisionList](c.ListRevisionsWithResponse(ctx, id, &client.ListRevisionsParams{Namespace: s.namespaceParam()}))
	if err != nil {
		return a, nil, err
	}
	versions, err := versionsIn(a)
	return a, versions, err
}

func versionsIn(a answer[client.RevisionList]) ([]version, error) {
	var raw struct{ Revisions []json.RawMessage }
	if err := json.Unmarshal(a.raw, &raw); err != nil {
		return nil, misunderstood(err)
	}
	versions := make([]version, len(a.value.Revisions))
	for i, r := range a.value.Revisions {
		versions[i] = version{Revision: r, raw: raw.Revisions[i]}
		if i+1 == len(versions) {
			break
		}
		before, err := rawOf(a.value.Revisions[i+1].Definition)
		if err != nil {
			return nil, err
		}
		after, err := rawOf(r.Definition)
		if err != nil {
			return nil, err
		}
		if versions[i].changes, err = changesBetween(before, after); err != nil {
			return nil, err
		}
		versions[i].known = true
	}
	return versions, nil
}

func (s *session) runHistory(ctx context.Context, id string) error {
	a, versions, err := s.history(ctx, id)
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error {
		if !s.OutIsTerminal {
			return printTable(s, versionColumns, versions)
		}
		for _, v := range versions {
			if err := s.printVersion(v); err != nil {
				return err
			}
		}
		return nil
	})
}

var versionColumns = []column[version]{
	{"revision", func(v version) any { return v.Revision.Revision }},
	{"from", func(v version) any { return v.From }},
	{"until", func(v version) any { return v.Until }},
	{"changed", func(v version) any {
		var names listing
		for _, c := range v.changes {
			names = append(names, c.name)
		}
		return names
	}},
}

// printVersion prints a revision and what it changed, for people.
func (s *session) printVersion(v version) error {
	text := fmt.Sprintf("revision %d  in force since %s, %s", v.Revision.Revision, s.text(nominal(v.From)), relative(v.From, s.Now()))
	if v.Until != nil {
		text = fmt.Sprintf("revision %d  from %s to %s", v.Revision.Revision, s.text(nominal(v.From)), s.text(nominal(*v.Until)))
	}
	if err := s.printf("%s\n", text); err != nil {
		return err
	}
	if !v.known && v.Revision.Revision > 1 {
		return s.printf("  what it changed is forgotten\n")
	}
	return s.printChanges(v.changes)
}

func (s *session) runRevision(ctx context.Context, id string, revision int) error {
	_, versions, err := s.history(ctx, id)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(versions, func(v version) bool { return v.Revision.Revision == revision })
	if i < 0 {
		s.say("%s has no revision %d, or no longer remembers it", id, revision)
		return errFailed
	}
	v := versions[i]
	return s.show(v.raw, func() error {
		definition, err := rawOf(v.Definition)
		if err != nil {
			return err
		}
		fields, err := definitionIn(definition)
		if err != nil {
			return err
		}
		details := []detail{{"revision", revision}, {"from", nominal(v.From)}, {"until", nominalOf(v.Until)}}
		for _, f := range fields {
			details = append(details, detail{f.name, f.value})
		}
		return s.printDetails(details)
	})
}
