package workflows

import (
	"context"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// Place is an attempt of a run in the line of its workflow. Of a workflow with max_runs, the first ones may run.
type Place struct {
	Run     task.Ref
	Attempt int
}

func (p Place) String() string { return p.Run.String() + " " + strconv.Itoa(p.Attempt) }

// Enter gives attempts of runs the last places in the line of a workflow, in that order, unless they have one. It
// returns how many attempts are before each. Error: CodeUnavailable.
func (s *Workflows) Enter(ctx context.Context, ref task.Ref, places ...Place) (before []int, _ error) {
	call := lua.EnterLine{Line: s.l.KeysOf(ref).Line(ref), Runs: nil}
	for _, p := range places {
		call.Runs = append(call.Runs, p.String())
	}
	reply, err := redisx.Run(ctx, s.l.DB, call)
	for _, p := range reply.Places {
		before = append(before, p.Before)
	}
	return before, publicError(err, ref)
}

// Line returns the places in the line of a workflow from the one with that number, from 0, to the one before another
// number. Error: CodeUnavailable.
func (s *Workflows) Line(ctx context.Context, ref task.Ref, from, before int) (places []Place, _ error) {
	entries, err := s.l.DB.ZRange(ctx, string(s.l.KeysOf(ref).Line(ref)), int64(from), int64(before)-1).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	for _, entry := range entries {
		name, attempt, _ := strings.Cut(entry, " ")
		run, err := task.ParseRef(name)
		if n, wrong := strconv.Atoi(attempt); err == nil && wrong == nil {
			places = append(places, Place{run, n})
		}
	}
	return places, nil
}

// Leave removes places from the line of a workflow. Error: CodeUnavailable.
func (s *Workflows) Leave(ctx context.Context, ref task.Ref, places ...Place) error {
	if len(places) == 0 {
		return nil
	}
	members := make([]any, len(places))
	for i, p := range places {
		members[i] = p.String()
	}
	if err := s.l.DB.ZRem(ctx, string(s.l.KeysOf(ref).Line(ref)), members...).Err(); err != nil {
		return layout.Unavailable(err)
	}
	return nil
}
