package command

import (
	"context"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/clock"
)

// watchEvery is the time between two looks of --watch.
const watchEvery = time.Second

// Watch reads something each second, and shows it beside what was shown before, until show says that it is the end, or
// ctx ends. What fails is told, and tried again, unless a repeat fails as well.
func Watch[T any](
	ctx context.Context, p *printer.Printer, read func(context.Context) (rest.Answer[T], error),
	show func(now rest.Answer[T], before T) (end bool, err error),
) error {
	var last T
	failing := false
	for {
		answer, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && rest.IsFinal(err):
			return err
		case err != nil:
			if !failing {
				p.Errorf("%v; trying again", err)
			}
			failing = true
		default:
			failing = false
			if end, err := show(answer, last); err != nil || end {
				return err
			}
			last = answer.Value
		}
		if err := clock.Sleep(ctx, watchEvery); err != nil {
			return err
		}
	}
}
