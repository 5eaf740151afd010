package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/task"
)

// nextLimit is how many ticks the server lists at most.
const nextLimit = 500

type forecastOptions struct {
	Client  func() (*rest.Client, error)
	Printer *printer.Printer

	Hours         *int
	Within        *time.Duration
	Next          *int
	AllNamespaces bool
}

func newForecastCommand(f *command.Factory) *cobra.Command {
	opts := &forecastOptions{Client: f.Client, Printer: f.Printer}
	cmd := &cobra.Command{
		Use: "forecast", Short: "Show what each of the next minutes has to do", Args: command.ExactArgs(),
		Annotations: command.Asks("forecast", "nextTicks"),
		Long: `forecast counts the future ticks of all schedules of the namespace that are not paused, and names the fullest
minutes and the schedules that fill them. It also counts the tasks that wait for their time. A terminal gets a chart. A
pipe gets a line for each minute: the minute, the number of its ticks, and of these tasks, which is left out where they
are too many to count.

With --within, it lists what comes in that time instead: the ticks of each schedule, and the tasks that wait for their
time, the earliest first. The columns are: at, what, namespace, id, ticks. At is the first tick, or when the task is
due.

With --next, it lists the next ticks of all these schedules, the earliest first. A note says if a change of the clock
moves one. The columns are: tick, local, namespace, schedule, queue, type, note. Local is the time of the schedule's
zone.`,
		Example: `  dtsctl schedule forecast
  dtsctl schedule forecast --within 15m --all-namespaces
  dtsctl schedule forecast --next 20 --all-namespaces
  dtsctl schedule forecast --hours 168 --all-namespaces
  dtsctl schedule forecast | sort -k 2 -n | tail -1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.Hours != nil && opts.Within != nil {
				return command.Usagef("--hours and --within: give one of them, not both")
			}
			if opts.Next == nil {
				return forecastRun(cmd.Context(), opts)
			}
			if opts.Hours != nil || opts.Within != nil {
				return command.Usagef("--next cannot be given together with --hours and --within")
			}
			if *opts.Next < 1 || *opts.Next > nextLimit {
				return command.Usagef("--next: %d must be 1 to %d", *opts.Next, nextLimit)
			}
			return nextTicksRun(cmd.Context(), opts)
		},
	}
	flags.Int(cmd.Flags(), &opts.Hours, "hours", "how far to look ahead (default 24)")
	flags.Duration(cmd.Flags(), &opts.Within, "within", "list what comes in this time, at most 1h, in whole minutes")
	flags.Int(cmd.Flags(), &opts.Next, "next", "list the next `N` ticks, at most 500")
	const all = "count the schedules of all namespaces, as -n '*'"
	cmd.Flags().BoolVarP(&opts.AllNamespaces, "all-namespaces", "A", false, all)
	return cmd
}

func forecastRun(ctx context.Context, opts *forecastOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.ForecastParams{
		Namespace: opts.namespace(c), Hours: opts.Hours, Within: flags.DurationText(opts.Within),
	}
	answer, err := rest.Read[wire.Forecast](c.ForecastWithResponse(ctx, params))
	if err != nil {
		return err
	}
	p := opts.Printer
	p.Warn(answer.Value.Warnings)
	return p.Show(answer.Raw, func() error {
		if opts.Within != nil {
			return printComing(p, answer.Value, *opts.Within)
		}
		if !p.OutIsTerminal {
			return p.PrintTabbed(minuteLines(answer.Value))
		}
		return printForecast(p, answer.Value)
	})
}

// namespace is that of the schedules, "*" for all.
func (opts *forecastOptions) namespace(c *rest.Client) *string {
	if opts.AllNamespaces {
		return new("*")
	}
	return c.Namespace
}

// printComing prints what comes, the earliest first.
func printComing(p *printer.Printer, f wire.Forecast, within time.Duration) error {
	columns := comingColumns
	if p.OutIsTerminal {
		in := printer.Column[wire.Coming]{Name: "in", Value: func(c wire.Coming) any { return c.At }}
		columns = slices.Insert(slices.Clone(columns), 1, in)
	}
	err := printer.PrintTable(p, columns, f.Coming)
	if n := wire.Value(f.ComingLeftOut); n > 0 {
		p.Notef("%d more come", n)
	}
	if until, cut := delayedUntil(f); cut && until.Before(f.From.Add(within)) {
		at := p.Text(printer.Timestamp(wire.At(until)))
		p.Notef("Tasks that are due from %s on are not listed: there are too many.", at)
	}
	return err
}

// delayedUntil returns when the tasks that wait for their time are no longer counted, and whether that is before the
// end of the forecast.
func delayedUntil(f wire.Forecast) (until time.Time, cut bool) {
	minutes := len(f.DelayedPerMinute)
	return f.From.Add(time.Duration(minutes) * time.Minute), f.DelayedPerMinute != nil && minutes < len(f.PerMinute)
}

var comingColumns = []printer.Column[wire.Coming]{
	{Name: "at", Value: func(c wire.Coming) any { return printer.Timestamp(c.At) }},
	{Name: "what", Value: func(c wire.Coming) any {
		if c.Task != nil {
			return "task"
		}
		return "schedule"
	}},
	{Name: "namespace", Value: func(c wire.Coming) any { return c.Namespace }},
	{Name: "id", Value: func(c wire.Coming) any { return cmp.Or(printer.Deref(c.Task), printer.Deref(c.Schedule)) }},
	{Name: "ticks", Value: func(c wire.Coming) any {
		if c.Ticks == nil {
			return ""
		}
		return *c.Ticks
	}},
}

// minuteLines returns a line for each minute.
func minuteLines(f wire.Forecast) [][]any {
	lines, delayed := make([][]any, len(f.PerMinute)), f.DelayedPerMinute
	for i, ticks := range f.PerMinute {
		lines[i] = []any{f.From.Add(time.Duration(i) * time.Minute), ticks, ""}
		if i < len(delayed) {
			lines[i][2] = delayed[i]
		}
	}
	return lines
}

// The width of the chart, in columns.
const (
	defaultChartWidth = 80 // where the terminal's is unknown
	maxChartWidth     = 200
)

// soon is how many minutes the first sentence of a forecast is about.
const soon = 15

// soonest says what the next minutes have to do; "" for a server that does not count delayed tasks.
func soonest(f wire.Forecast) string {
	if f.DelayedPerMinute == nil {
		return ""
	}
	ticks, delayed := 0, 0
	for i, n := range f.PerMinute[:min(soon, len(f.PerMinute))] {
		ticks += n
		if i < len(f.DelayedPerMinute) {
			delayed += f.DelayedPerMinute[i]
		}
	}
	text := printer.Counted(delayed, "delayed task")
	if len(f.DelayedPerMinute) < soon {
		text = "at least " + text
	}
	return fmt.Sprintf("In the next %d minutes: %s and %s.\n\n", soon, printer.Counted(ticks, "tick"), text)
}

// alsoDelayed says how many tasks wait for their time; "" if none does, or nobody has counted them.
func alsoDelayed(p *printer.Printer, f wire.Forecast) string {
	delayed := 0
	for _, n := range f.DelayedPerMinute {
		delayed += n
	}
	until, cut := delayedUntil(f)
	switch {
	case cut:
		return fmt.Sprintf("; %s until %s (later ones are not counted)", printer.Counted(delayed, "delayed task"),
			p.Text(printer.Timestamp(wire.At(until))))
	case delayed > 0:
		return "; " + printer.Counted(delayed, "delayed task")
	}
	return ""
}

func printForecast(p *printer.Printer, f wire.Forecast) error {
	if err := p.Printf("%s", soonest(f)); err != nil {
		return err
	}
	hours := printer.Counted(len(f.PerMinute)/60, "hour")
	if f.Total == 0 {
		schedules := printer.Counted(f.Schedules, "schedule")
		return p.Printf("No tick of %s in the next %s%s.\n", schedules, hours, alsoDelayed(p, f))
	}
	width := min(cmp.Or(p.Width, defaultChartWidth), maxChartWidth)
	chart := printer.Chart{From: f.From.In(p.Zone), Values: f.PerMinute, Width: width}
	title := fmt.Sprintf("Ticks per minute in the next %s", hours)
	if minutes := chart.MinutesPerBar(); minutes > 1 {
		title += fmt.Sprintf("; a bar is the fullest of %d minutes", minutes)
	}
	err := p.Printf("%s\n\n%s\n\n%s of %s, %s per minute on average%s. The fullest minutes:\n\n",
		title, strings.Join(chart.Lines(), "\n"),
		printer.Counted(f.Total, "tick"), printer.Counted(f.Schedules, "schedule"), decimal(average(f)), alsoDelayed(p, f))
	if err != nil {
		return err
	}
	if err := printer.PrintTable(p, hotMinuteColumns, f.Hottest); err != nil {
		return err
	}
	return adviseSpreading(p, f)
}

// average returns the number of ticks of an average minute.
func average(f wire.Forecast) float64 { return float64(f.Total) / float64(max(1, len(f.PerMinute))) }

// decimal returns a number with three significant digits, or all digits before the point.
func decimal(n float64) string {
	if n >= 1000 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

var hotMinuteColumns = []printer.Column[wire.HotMinute]{
	{Name: "minute", Value: func(h wire.HotMinute) any { return printer.Timestamp(h.Minute) }},
	{Name: "in", Value: func(h wire.HotMinute) any { return h.Minute }},
	{Name: "ticks", Value: func(h wire.HotMinute) any { return h.Fires }},
	{Name: "schedules", Value: func(h wire.HotMinute) any { return hotSchedules(h) }},
}

// hotSchedules returns the schedules that fill a minute with their ticks, and how many ticks are of others.
func hotSchedules(h wire.HotMinute) printer.List {
	var texts printer.List
	others := h.Fires
	for _, s := range h.Schedules {
		name := s.ID
		if s.Namespace != task.DefaultNamespace {
			name = s.Namespace + "/" + s.ID
		}
		texts = append(texts, fmt.Sprintf("%s %d", name, s.Fires))
		others -= s.Fires
	}
	if others > 0 {
		texts = append(texts, fmt.Sprintf("others %d", others))
	}
	return texts
}

// A minute is crowded if it has at least crowdTicks ticks, of several schedules, and crowdFactor times the average.
const (
	crowdTicks  = 10
	crowdFactor = 4
)

// adviseSpreading says how to spread the ticks of a crowded minute.
func adviseSpreading(p *printer.Printer, f wire.Forecast) error {
	if len(f.Hottest) == 0 {
		return nil
	}
	hottest, mean := f.Hottest[0], average(f)
	if hottest.Fires < crowdTicks || float64(hottest.Fires) < crowdFactor*mean || len(hottest.Schedules) < 2 {
		return nil
	}
	return p.Printf(`
The fullest minute has %s times the ticks of an average one. To spread schedules that need no exact time, write an H in
their cron expression ('H * * * *' is once an hour, at a minute of the schedule's own), or give them --jitter.
`, decimal(float64(hottest.Fires)/mean))
}
