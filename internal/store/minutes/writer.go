package minutes

import (
	"context"
	"log/slog"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/rollup"
)

const (
	// writeEvery is how often a node writes what it has counted. If it is killed, what it counted since is lost.
	writeEvery = 2 * time.Second
	// writeTimeout is of one write. It is tried again.
	writeTimeout = 2 * time.Second
)

// Run writes what this node counts, every two seconds if it has changed, until ctx ends, and then for the last time. It
// returns nil.
func (m *Minutes) Run(ctx context.Context, node string, tally *rollup.Tally) error {
	failing := false
	for more := true; more; {
		more = clock.Sleep(ctx, writeEvery) == nil
		err := m.writeChanged(context.WithoutCancel(ctx), node, tally)
		if err != nil && !failing {
			m.l.Log.WarnContext(ctx, "cannot write what this node has counted; trying again", slog.Any("error", err))
		}
		failing = err != nil
	}
	return nil
}

// writeChanged writes the minutes that have changed. Error: CodeUnavailable.
func (m *Minutes) writeChanged(ctx context.Context, node string, tally *rollup.Tally) error {
	rows := tally.Rows()
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := m.Write(ctx, node, rows); err != nil {
		return err
	}
	for _, r := range rows {
		tally.Written(r)
	}
	return nil
}
