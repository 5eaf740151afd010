package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

type schedulePutOptions struct {
	plan
	work
	session  *session
	ifMatch  int
	ifAbsent bool
}

func newSchedulePutCommand(s *session) *cobra.Command {
	o := schedulePutOptions{session: s}
	cmd := &cobra.Command{
		Use:   "put ID (--cron EXPRESSION | --every DURATION)... [flags] (-- COMMAND [ARGUMENT...] | --http URL | --type TYPE)",
		Short: "Create or replace a schedule",
		Long: `put puts a schedule in force, the whole of it: what is not said has its default, not what it was before. Only the pause
stays as it is without --paused. The same again changes nothing.

What runs is a command behind "--", as in "task shell" (with --env, --dir, --stdin); a URL that is called, as in "task http"
(with --method, --header, --data, --success-codes); or a task of any type (with --payload). --owner and --label are the
schedule's, --task-owner and --task-label those of its tasks.

A cron expression has 5 fields (minute, hour, day of the month, month, day of the week), 6 (seconds first) or 7 (a year
last), or is @hourly, @daily and the like. Days can be L, L-3, 15W, LW, 5L or 5#2; H stands for a value made of the
schedule's name, which spreads schedules that need no exact time.

A terminal is told what changed and the next ticks. A pipe gets a line: the id; created, changed or unchanged; the
revision; the next tick.`,
		Example: `  dtsctl schedule put nightly --cron '30 2 * * *' --timezone Europe/Berlin -- /usr/local/bin/backup --full
  dtsctl schedule put health --every 10s --overlap skip --http https://example.com/health -X GET --timeout 5s
  dtsctl schedule put report --cron '0 0 18 LW * *' --exclude 2026-12-31 --type http --payload @report.json
  dtsctl schedule put hourly --cron 'H * * * *' --misfire all --misfire-window 6h --if-match 3 -- sync`,
		Args: o.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args[1:]
			return o.run(cmd, args[0])
		},
	}
	o.plan.bind(cmd)
	o.work.bind(cmd.Flags())
	cmd.Flags().IntVar(&o.ifMatch, "if-match", 0, "only if this is the revision in force")
	cmd.Flags().BoolVar(&o.ifAbsent, "if-absent", false, "only if there is no schedule of that id")
	return cmd
}

// args takes one id, and a command behind the dashes.
func (o *schedulePutOptions) args(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
	}
	if dash > 1 {
		return usagef("%q is one argument too many; a command stands behind --", args[1])
	}
	return named("ID")(cmd, args[:dash])
}

func (o *schedulePutOptions) run(cmd *cobra.Command, id string) error {
	flags := cmd.Flags()
	switch {
	case o.ifAbsent && flags.Changed("if-match"):
		return usagef("--if-match and --if-absent: give one of them, not both")
	case flags.Changed("if-match") && o.ifMatch < 1:
		return usagef("--if-match: %d is less than 1", o.ifMatch)
	}
	if err := noNegative(flags); err != nil {
		return err
	}
	task, err := o.template(o.session, flags)
	if err != nil {
		return err
	}
	d, err := o.definition(o.session, flags, task)
	if err != nil {
		return err
	}
	before, err := o.before(cmd.Context(), id)
	if err != nil {
		return err
	}
	a, err := o.put(cmd.Context(), id, d)
	if err != nil {
		return err
	}
	return o.session.showPut(cmd.Context(), before, a)
}

// noNegative refuses durations of less than nothing.
func noNegative(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Value.Type(), "duration") && strings.Contains(f.Value.String(), "-") {
			err = usagef("--%s: %s is negative", f.Name, strings.Trim(f.Value.String(), "[]"))
		}
	})
	return err
}

// before is the schedule that is about to be replaced, nil if there is none or nobody wants to know what changed.
func (o *schedulePutOptions) before(ctx context.Context, id string) (*answer[client.Schedule], error) {
	if !o.session.isTable() {
		return nil, nil
	}
	a, err := o.session.schedule(ctx, id)
	var no *refusal
	if errors.As(err, &no) {
		return nil, nil
	}
	return &a, err
}

func (o *schedulePutOptions) put(ctx context.Context, id string, d client.ScheduleDefinition) (answer[client.Schedule], error) {
	c, err := o.session.calls()
	if err != nil {
		return answer[client.Schedule]{}, err
	}
	body, err := bodyOf(d)
	if err != nil {
		return answer[client.Schedule]{}, err
	}
	params := client.PutScheduleParams{Namespace: o.session.namespaceParam()}
	if o.ifMatch > 0 {
		params.IfMatch = new(revisionTag(o.ifMatch))
	}
	if o.ifAbsent {
		params.IfNoneMatch = new("*")
	}
	return ask[client.Schedule](c.PutScheduleWithBodyWithResponse(ctx, id, &params, jsonType, body))
}

// revisionTag is a revision as If-Match takes it.
func revisionTag(revision int) string { return fmt.Sprintf(`"%d"`, revision) }

// showPut prints what a definition that was put has changed.
func (s *session) showPut(ctx context.Context, before *answer[client.Schedule], a answer[client.Schedule]) error {
	return s.show(a.raw, func() error {
		what := "changed"
		switch {
		case a.status == http.StatusCreated:
			what, before = "created", nil
		case before != nil && before.value.Revision == a.value.Revision:
			what = "unchanged"
		}
		if !s.OutIsTerminal {
			return s.printTabbed([][]any{{a.value.ID, what, a.value.Revision, a.value.NextAt}})
		}
		if err := s.printf("%s\n", s.sentenceOfPut(what, before, a.value)); err != nil {
			return err
		}
		if before != nil {
			changes, err := changesBetween(before.raw, a.raw)
			if err != nil {
				return err
			}
			if err := s.printChanges(changes); err != nil {
				return err
			}
		}
		return s.printSoon(ctx, a.value)
	})
}

func (s *session) sentenceOfPut(what string, before *answer[client.Schedule], after client.Schedule) string {
	text := flat(after.ID) + " " + what
	if what == "changed" {
		text += fmt.Sprintf(", now revision %d", after.Revision)
	} else if what == "unchanged" {
		text += fmt.Sprintf(", revision %d", after.Revision)
	}
	switch {
	case after.Paused:
		text += ", " + s.coloured(status("paused"), "paused")
	case before != nil && before.value.Paused:
		text += ", not paused any more"
	}
	return text
}

// soonTicks is how many of the next ticks are shown once a definition is in force.
const soonTicks = 3

// printSoon prints the next ticks of a schedule. It is in force all the same if they cannot be shown.
func (s *session) printSoon(ctx context.Context, c client.Schedule) error {
	a, err := s.preview(ctx, c.ID, client.PreviewScheduleParams{Namespace: &c.Namespace, Count: new(soonTicks)})
	if err != nil {
		s.say("its next ticks are not known: %v", err)
		return nil
	}
	if len(a.value.Ticks) == 0 {
		return s.printf("It ticks no more.\n")
	}
	return s.printAligned(cellsOf(soonColumns, a.value.Ticks))
}
