package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

type applyOptions struct {
	session  *session
	files    []string
	dryRun   bool
	prune    bool
	selector []string
}

func newApplyCommand(s *session) *cobra.Command {
	o := applyOptions{session: s}
	cmd := &cobra.Command{
		Use: "apply -f FILE...", Short: "Bring about the schedules and tasks that files describe",
		Long: `apply reads YAML or JSON files and makes the server's schedules and tasks what they say. A file has one or more
documents of this form:

  namespace: reports              # may be left out
  schedules:
    - id: nightly
      cron: 30 2 * * *            # and whatever else PUT /v1/schedules/{id} takes
      task: {type: shell, payload: {command: [/usr/local/bin/report]}}
  tasks:
    - id: import                  # and whatever else POST /v1/tasks takes
      type: http
      payload: {url: "https://example.com/import"}
      count: 20                   # 20 such tasks, import-0001 to import-0020

All files are read and checked first; with an error in any of them, nothing is sent. Then every schedule and task is
applied by itself: the exit code is 1 if any was refused. Applying the same files again changes nothing. A task
that has ended counts as long as the server remembers it (retention); after that it would be run again.

With --dry-run, nothing is changed: schedules are checked by the server and compared with what is in force, field by
field; of tasks it is looked up whether they are there.

With --prune, the schedules with the labels of --selector that are in none of the files are deleted, in the namespaces
that the files are about; their tasks that have not begun are cancelled, running ones go on. Nothing is pruned if
anything was refused, or if the files are empty: to keep no schedule at all, say "schedules: []".

A pipe gets a line for each: kind, namespace, id, what became of it (created, changed, unchanged, pruned, refused), and
the revision of a schedule. Differences follow in lines that begin with two spaces. With -o json it is one document:
{dry_run, results: [{kind, namespace, id, outcome, revision, changes: [{field, before, after}], error}]}.`,
		Example: `  dtsctl apply -f schedules.yaml
  dtsctl apply -f schedules/ --dry-run
  dtsctl apply -f schedules/ --prune -l team=storage
  generate-schedules | dtsctl apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = append(o.files, args...) // -f *.yaml, as the shell expands it
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "file", "f", nil, "a file, a directory (its .yaml, .yml and .json files), or - for standard input; may be repeated")
	flags.BoolVar(&o.dryRun, "dry-run", false, "change nothing, show what would change")
	flags.BoolVar(&o.prune, "prune", false, "delete the schedules that have the labels of --selector and are in none of the files")
	flags.StringSliceVarP(&o.selector, "selector", "l", nil, "of --prune: the labels, as NAME=VALUE[,NAME=VALUE...]")
	return cmd
}

func (o *applyOptions) run(ctx context.Context) error {
	labels, err := o.labels()
	if err != nil {
		return err
	}
	want, err := o.session.readManifests(o.files)
	if err != nil {
		return err
	}
	c, err := o.session.calls()
	if err != nil {
		return err
	}
	a := applying{session: o.session, calls: c, dryRun: o.dryRun}
	err = a.all(ctx, want, labels)
	if shown := o.session.showApplied(a.results, o.dryRun); err == nil {
		err = shown
	}
	if err == nil && a.refused > 0 {
		err = errFailed
	}
	return err
}

// labels is what --prune is limited to, nil without it.
func (o *applyOptions) labels() (map[string]string, error) {
	switch {
	case len(o.files) == 0:
		return nil, usagef("-f is missing: which files?")
	case o.prune && len(o.selector) == 0:
		return nil, usagef("--prune: which labels? Give --selector (-l) NAME=VALUE")
	case !o.prune && len(o.selector) > 0:
		return nil, usagef("--selector goes with --prune only")
	}
	labels, err := pairs("--selector", "=", o.selector)
	if err != nil || labels == nil {
		return nil, err
	}
	return *labels, nil
}

// applying is one run over everything that the files want.
type applying struct {
	session *session
	calls   *client.ClientWithResponses
	dryRun  bool
	results []applied
	half    []applied // the tasks of an entry of which not all have been handled
	refused int       // entries of the files
}

// all goes on where something is refused; it ends at any other error.
func (a *applying) all(ctx context.Context, want manifest, labels map[string]string) error {
	for _, entry := range want.schedules {
		if err := a.schedule(ctx, entry); err != nil {
			return err
		}
	}
	if err := a.tasks(ctx, want.tasks); err != nil {
		return err
	}
	switch {
	case labels == nil:
		return nil
	case a.refused > 0:
		a.session.say("nothing is pruned, because something was refused")
		return nil
	}
	return a.prune(ctx, want, labels)
}

// note takes a result down, and prints it at once if it is for people or a pipe.
func (a *applying) note(r applied) error {
	a.results = append(a.results, r)
	if !a.session.isTable() {
		return nil
	}
	return a.session.printApplied(r, a.dryRun)
}

// refuse tells why the server does not take an entry, or as many of its tasks.
func (a *applying) refuse(entry wanted, tasks int, no *refusal) {
	a.refused++
	name := entry.kind + " " + entry.id
	if entry.count > 0 {
		name = fmt.Sprintf("%d of the %d tasks %s", tasks, entry.count, entry.id)
	}
	line := entry.line(orNothing(no.Field))
	a.session.say("%s:%d: %s: %v", entry.file, line, name, no)
}

// refusalIn is the "no" of the server in err, nil if it is another error or none.
func refusalIn(err error) *refusal {
	var no *refusal
	errors.As(err, &no)
	return no
}
