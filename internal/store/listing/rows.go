package listing

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// rowsIn reads all rows of segments of a partition. Errors: errReplaced, CodeUnavailable; index.ErrUnreadable.
func rowsIn(
	ctx context.Context, l *layout.Layout, partition int, segments []index.Summary,
) (rows []index.Row, _ error) {
	var wanted []field
	for _, s := range segments {
		for place := range s.Blocks {
			wanted = append(wanted, field{partition, blockName(s.Number, place)})
		}
	}
	texts, err := readFields(ctx, l, wanted, func(k lua.Partition) string { return string(k.ListedRows()) })
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		if text == nil {
			return nil, errReplaced
		}
		for r, err := range index.Rows(text, index.Filter{}) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// rowsOf returns the rows of tasks that exist; withCauses: those of tasks that have failed say why. Error:
// CodeUnavailable.
func rowsOf(
	ctx context.Context, l *layout.Layout, t *tasks.Tasks, refs []task.Ref, withCauses bool,
) ([]index.Row, error) {
	found, err := t.CheapBriefs(ctx, refs)
	if err != nil {
		return nil, err
	}
	var causes map[task.Ref]string
	if withCauses {
		if causes, err = readCauses(ctx, l, found); err != nil {
			return nil, err
		}
	}
	rows := make([]index.Row, 0, len(found))
	for _, listed := range found {
		rows = append(rows, index.NewRow(listed, causes[listed.Ref]))
	}
	return rows, nil
}

// readCauses returns the causes of the tasks that have failed, by their names. Error: CodeUnavailable.
func readCauses(ctx context.Context, l *layout.Layout, found []task.Task) (map[task.Ref]string, error) {
	pipe := l.DB.Pipeline()
	asked := make(map[task.Ref]*redis.StringCmd)
	for _, t := range found {
		if t.State == task.Failed {
			asked[t.Ref] = pipe.HGet(ctx, string(l.KeysOf(t.Ref).Errors()), t.Ref.String())
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	causes := make(map[task.Ref]string, len(asked))
	for ref, text := range asked {
		causes[ref] = rollup.Shape(text.Val())
	}
	return causes, nil
}
