package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

type forecastOptions struct {
	session *session
	hours   int
	all     bool
}

func newForecastCommand(s *session) *cobra.Command {
	o := forecastOptions{session: s}
	cmd := &cobra.Command{
		Use: "forecast", Short: "Show how many ticks each minute ahead will see", Args: named(),
		Long: `forecast counts the ticks ahead of all schedules of the namespace that are not paused, and names the fullest minutes and
what fills them. A terminal is drawn a picture. A pipe gets a line for each minute: the minute and the number of its ticks.`,
		Example: `  dtsctl schedule forecast
  dtsctl schedule forecast --hours 168 --all-namespaces
  dtsctl schedule forecast | sort -k 2 -n | tail -1`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.Flags()) },
	}
	cmd.Flags().IntVar(&o.hours, "hours", 24, "how far to look ahead")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "count the schedules of all namespaces, as -n '*'")
	return cmd
}

func (o *forecastOptions) run(ctx context.Context, flags *pflag.FlagSet) error {
	s := o.session
	c, err := s.calls()
	if err != nil {
		return err
	}
	namespace := s.namespaceParam()
	if o.all {
		namespace = new("*")
	}
	a, err := ask[client.Forecast](c.ForecastWithResponse(ctx, &client.ForecastParams{Namespace: namespace, Hours: given(flags, "hours", o.hours)}))
	if err != nil {
		return err
	}
	return s.show(a.raw, func() error {
		if !s.OutIsTerminal {
			return s.printTabbed(minutesOf(a.value))
		}
		return s.drawForecast(a.value)
	})
}

// minutesOf is a line for each minute.
func minutesOf(f client.Forecast) [][]any {
	lines := make([][]any, len(f.PerMinute))
	for i, ticks := range f.PerMinute {
		lines[i] = []any{f.From.Add(time.Duration(i) * time.Minute), ticks}
	}
	return lines
}

// unknownWidth is how many characters a line has where nobody says; widest is how many a picture has at most.
const (
	unknownWidth = 80
	widest       = 200
)

func (s *session) drawForecast(f client.Forecast) error {
	hours := counted(len(f.PerMinute)/60, "hour")
	if f.Total == 0 {
		return s.printf("No tick of %s in the next %s.\n", counted(f.Schedules, "schedule"), hours)
	}
	c := chart{from: f.From.In(s.Zone), values: f.PerMinute, width: min(cmp.Or(s.Width, unknownWidth), widest)}
	title := fmt.Sprintf("Ticks a minute in the next %s", hours)
	if per := c.perBar(); per > 1 {
		title += fmt.Sprintf("; a bar is the fullest of %d minutes", per)
	}
	if err := s.printf("%s\n\n", title); err != nil {
		return err
	}
	for _, line := range c.lines() {
		if err := s.printf("%s\n", line); err != nil {
			return err
		}
	}
	err := s.printf("\n%s of %s, %s a minute on average. The fullest minutes:\n\n",
		counted(f.Total, "tick"), counted(f.Schedules, "schedule"), average(meanOf(f)))
	if err != nil {
		return err
	}
	if err := printTable(s, hotColumns, f.Hottest); err != nil {
		return err
	}
	return s.adviseSpreading(f)
}

// meanOf is the ticks of an average minute.
func meanOf(f client.Forecast) float64 { return float64(f.Total) / float64(max(1, len(f.PerMinute))) }

// average is a number with as many digits as tell something.
// average is a number as people write it: three digits, or all before the point.
func average(n float64) string {
	if n >= 1000 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

var hotColumns = []column[client.HotMinute]{
	{"minute", func(h client.HotMinute) any { return nominal(h.Minute) }},
	{"in", func(h client.HotMinute) any { return h.Minute }},
	{"ticks", func(h client.HotMinute) any { return h.Fires }},
	{"schedules", func(h client.HotMinute) any { return makersOf(h) }},
}

// makersOf is which schedules make a minute full, and how many ticks are of others.
func makersOf(h client.HotMinute) listing {
	var texts listing
	others := h.Fires
	for _, c := range h.Schedules {
		name := c.ID
		if c.Namespace != "default" {
			name = c.Namespace + "/" + c.ID
		}
		texts = append(texts, fmt.Sprintf("%s %d", name, c.Fires))
		others -= c.Fires
	}
	if others > 0 {
		texts = append(texts, fmt.Sprintf("others %d", others))
	}
	return texts
}

// When a minute counts as a herd: it has some ticks, many times as many as others have, and of several schedules.
const (
	herdTicks = 10
	herdTimes = 4
)

// adviseSpreading says how to spread what comes all at once.
func (s *session) adviseSpreading(f client.Forecast) error {
	if len(f.Hottest) == 0 {
		return nil
	}
	hot, mean := f.Hottest[0], meanOf(f)
	if hot.Fires < herdTicks || float64(hot.Fires) < herdTimes*mean || len(hot.Schedules) < 2 {
		return nil
	}
	return s.printf(`
The fullest minute has %s times the ticks of an average one. Schedules that need no exact time are spread by an H in
their cron expression ('H * * * *' is once an hour, at a minute of the schedule's own), or by --jitter.
`, average(float64(hot.Fires)/mean))
}
