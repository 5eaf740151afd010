package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/store/workflows"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

const workflowLeftovers = "workflow-leftovers"

var workflowChecks = []string{"workflow-unreadable", "workflow-drift", workflowLeftovers}

// listedWorkflows are the workflows of a partition that lists show.
func (e *examination) listedWorkflows(p int) collection {
	set := string(e.o.Layout.Keys.Partition(p).Workflows())
	return e.pages("workflows", workflowChecks, e.o.Layout.DB.ZScan, set, schedulesPage, func(
		ctx context.Context, names []string,
	) error {
		return e.examineWorkflows(ctx, p, names)
	})
}

// unlistedWorkflows examines those of the workflows that lists do not show.
func (e *examination) unlistedWorkflows(ctx context.Context, p int, names []string) error {
	if !e.wants(workflowChecks...) {
		return nil
	}
	set := string(e.o.Layout.Keys.Partition(p).Workflows())
	pipe := e.o.Layout.DB.Pipeline()
	scores := make([]*redis.FloatCmd, len(names))
	for i, name := range names {
		scores[i] = pipe.ZScore(ctx, set, name)
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return err
	}
	var unlisted []string
	for i, name := range names {
		if scores[i].Err() != nil {
			unlisted = append(unlisted, name)
		}
	}
	return e.examineWorkflows(ctx, p, unlisted)
}

// examineWorkflows examines workflows of a partition, and repairs them.
func (e *examination) examineWorkflows(ctx context.Context, p int, names []string) error {
	looked, err := e.inTurn(ctx, names, schedulesPage, workflowChecks, func(some []string) error {
		members, err := e.readWorkflows(ctx, p, some)
		if err != nil {
			return err
		}
		reply, err := redisx.Run(ctx, e.o.Layout.DB, lua.ExamineWorkflows{
			Workflows: e.o.Layout.Keys.Partition(p).Workflows(), Checks: e.wanted, Repair: e.Repair, Members: members,
		})
		for _, f := range reply.Found {
			e.found(f.Check, f.Member, f.Words)
		}
		return err
	})
	e.looked(looked, workflowChecks...)
	return err
}

// readWorkflows reads whether workflows can be read. Error: one of Redis.
func (e *examination) readWorkflows(ctx context.Context, p int, names []string) ([]lua.ExamineWorkflowsMember, error) {
	pipe := e.o.Layout.DB.Pipeline()
	hashes := make([]*redis.MapStringStringCmd, len(names))
	members := make([]lua.ExamineWorkflowsMember, len(names))
	for i, name := range names {
		members[i] = lua.ExamineWorkflowsMember{Member: name, Broken: "", Digest: ""}
		if ref, err := task.ParseRef(name); err == nil { // another name can have no definition
			hashes[i] = pipe.HGetAll(ctx, string(e.o.Layout.Keys.Partition(p).Workflow(ref)))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i, hash := range hashes {
		if hash == nil || len(hash.Val()) == 0 {
			continue
		}
		ref, _ := task.ParseRef(names[i]) // it was read above
		if err := workflows.Check(ref, hash.Val()); err != nil {
			members[i].Broken, members[i].Digest = err.Error(), codec.Digest(hash.Val()["def"])
		}
	}
	return members, nil
}

// line are the places in the line of a workflow. Those of runs that do not exist hold nobody up: whoever waits next
// looks for them.
func (e *examination) line(p int, ref task.Ref) collection {
	key := string(e.o.Layout.Keys.Partition(p).Line(ref))
	return e.pages(key, []string{workflowLeftovers}, e.o.Layout.DB.ZScan, key, orphansPage, func(
		ctx context.Context, places []string,
	) error {
		gone, err := e.gonePlaces(ctx, places)
		if err != nil {
			return err
		}
		e.looked(len(places), workflowLeftovers)
		for _, place := range gone {
			words := fmt.Sprintf("has a place in its line of a run that does not exist: %q", place)
			if e.found(workflowLeftovers, ref.String(), words) && e.Repair {
				if err := e.o.Layout.DB.ZRem(ctx, key, place).Err(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// gonePlaces returns the places of runs that do not exist.
func (e *examination) gonePlaces(ctx context.Context, places []string) (gone []string, _ error) {
	pipe := e.o.Layout.DB.Pipeline()
	exist := make([]*redis.BoolCmd, len(places))
	for i, place := range places {
		name, _, _ := strings.Cut(place, " ")
		if run, err := task.ParseRef(name); err == nil {
			exist[i] = pipe.HExists(ctx, string(e.o.Layout.KeysOf(run).Defs()), name)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i, place := range places {
		if exist[i] == nil || !exist[i].Val() {
			gone = append(gone, place)
		}
	}
	return gone, nil
}
