package bench

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// show prints the figures.
func (f figures) show(p *printer.Printer) error {
	raw, err := wire.Encode(f)
	if err != nil {
		return err
	}
	return p.Show(raw, func() error {
		if err := p.PrintDetails(f.details()); err != nil || !p.OutIsTerminal || len(f.Histogram) == 0 {
			return err
		}
		return p.Printf("\nTasks by lateness:\n\n%s\n\nThe tasks expire a minute after their end.\n", strings.Join(f.bars(p.Width), "\n"))
	})
}

func (f figures) details() []printer.Detail {
	details := []printer.Detail{
		{Name: "name", Value: f.Name}, {Name: "queue", Value: f.Queue}, {Name: "delay", Value: f.Delay}, {Name: "rate", Value: f.Rate},
		{Name: "tasks", Value: f.Tasks}, {Name: "submitted", Value: f.Submitted}, {Name: "submitted_per_second", Value: f.PerSecond},
		{Name: "succeeded", Value: f.Succeeded}, {Name: "failed", Value: f.Failed}, {Name: "cancelled", Value: f.Cancelled},
		{Name: "unread", Value: f.Unread}, {Name: "early", Value: f.Early},
	}
	if l := f.Lateness; l != nil {
		details = append(details, []printer.Detail{
			{Name: "lateness_p50", Value: milliseconds(l.P50)}, {Name: "lateness_p90", Value: milliseconds(l.P90)},
			{Name: "lateness_p99", Value: milliseconds(l.P99)}, {Name: "lateness_max", Value: milliseconds(l.Max)},
		}...)
	}
	return details
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// The width of the histogram, in columns.
const (
	defaultWidth = 80 // where the terminal's is unknown
	maxWidth     = 100
)

func (f figures) bars(width int) []string {
	bars := make([]printer.Bar, len(f.Histogram))
	for i, b := range f.Histogram {
		bars[i] = printer.Bar{Label: b.label(), Value: b.Tasks}
	}
	return printer.BarLines(bars, min(cmp.Or(width, defaultWidth), maxWidth))
}

func (b bucket) label() string {
	switch {
	case b.To < 0:
		return "early"
	case b.From == b.To:
		return fmt.Sprintf("%d ms", b.From)
	}
	return fmt.Sprintf("%d-%d ms", b.From, b.To)
}

// verdict tells the user what went wrong with tasks, and returns command.ErrReported if anything did.
func (m *measurement) verdict(f figures) error {
	p := m.opts.Printer
	if f.Unread > 0 {
		p.Errorf("the server had forgotten %s before their ends could be read; the figures lack them", printer.Counted(f.Unread, "task"))
	}
	if f.Failed > 0 {
		p.Errorf("%s failed, such as %s", printer.Counted(f.Failed, "task"), m.tally.failure)
	}
	if f.Cancelled > 0 {
		p.Errorf("somebody cancelled %s", printer.Counted(f.Cancelled, "task"))
	}
	if f.Early > 0 {
		p.Errorf("%s started before they were due", printer.Counted(f.Early, "task"))
	}
	if f.Failed+f.Cancelled+f.Early > 0 {
		return command.ErrReported
	}
	return nil
}
