// Package usage estimates what the data of an installation takes in Redis, by kind, by namespace and by schedule.
//
// It measures the few large keys of each partition with MEMORY USAGE, and asks for the sizes of a random part of their
// entries. These sizes tell how the bytes of a key are shared among namespaces and schedules. Of keys that exist for
// each task, it measures a random part and extrapolates. It sends short pipelines, so that Redis serves others between.
package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// Kind is a kind of data.
type Kind string

// The kinds. Each byte that Redis uses belongs to one of them.
const (
	Waiting        Kind = "waiting"        // definitions, payloads and places of tasks that have not ended
	Ended          Kind = "ended"          // the same of tasks that have ended
	States         Kind = "states"         // the states of tasks
	Results        Kind = "results"        // the results of tasks
	Errors         Kind = "errors"         // the newest errors of tasks
	Attempts       Kind = "attempts"       // the earlier attempts of tasks
	Logs           Kind = "logs"           // the log lines of tasks
	Checkpoints    Kind = "checkpoints"    // the newest checkpoints of tasks
	Schedules      Kind = "schedules"      // schedules, without the kinds that follow
	Histories      Kind = "histories"      // the earlier revisions of schedules
	Ledgers        Kind = "ledgers"        // the records of ticks
	Workflows      Kind = "workflows"      // workflows with their earlier revisions, and the lines of their runs
	Runs           Kind = "runs"           // what runs of workflows have beside their tasks
	Remembered     Kind = "remembered"     // the ids of tasks that were deleted
	Deliveries     Kind = "deliveries"     // the queues of asynq
	Administration Kind = "administration" // nodes, locks, leases, settings, counts; what doctor put aside
	Foreign        Kind = "foreign"        // keys that do not belong to this installation
	Server         Kind = "server"         // Redis itself: connections, buffers, other databases; what was not measured
)

// Kinds are all kinds, in the order in which they are shown.
var Kinds = []Kind{
	Waiting, Ended, States, Results, Errors, Attempts, Logs, Checkpoints, Schedules, Histories, Ledgers,
	Workflows, Runs, Remembered, Deliveries, Administration, Foreign, Server,
}

// Limits of a report.
const (
	NamespaceLimit = 100
	ScheduleLimit  = 10
)

// Report is what the data takes, as an estimate. All sizes are in bytes.
type Report struct {
	Unknown    string          // why nothing is known; "" if the rest is
	Warnings   []string        // what the user of Redis may not measure
	Used       int64           // by all servers of Redis; 0 if one of them does not say it
	Limit      int64           // their maxmemory in sum; 0 if one of them has none
	Keys       int64           // how many keys there are
	Kinds      []KindUsage     // in the order of Kinds; without Server if Used is not known
	Namespaces []Namespace     // those that take most first, at most NamespaceLimit
	Schedules  []ScheduleUsage // those that take most first, at most ScheduleLimit, among those that were measured
	Measured   int             // how many schedules were measured
	Existing   int             // how many schedules there are
}

// KindUsage is what a kind of data takes.
type KindUsage struct {
	Kind  Kind
	Bytes int64
}

// Namespace is what a namespace takes. Its tasks count with all that is kept of them.
type Namespace struct {
	Name          string
	Tasks         int64
	TaskBytes     int64
	Schedules     int64
	ScheduleBytes int64
}

// ScheduleUsage is what a schedule takes.
type ScheduleUsage struct {
	Ref     task.Ref
	Own     int64 // its definition and state, and the lists of its live and waiting runs
	History int64 // its earlier revisions
	Ledger  int64 // the records of its ticks
	Runs    int64 // the tasks of its ticks, extrapolated
}

// Bytes is what the schedule takes with its runs.
func (s ScheduleUsage) Bytes() int64 { return s.Own + s.History + s.Ledger + s.Runs }

// Read estimates what the data takes. Under redisx.LeavingOut, keys of another type than theirs are left out. Errors:
// CodeUnavailable; CodeUnreadable.
func Read(ctx context.Context, l *layout.Layout) (Report, error) {
	r := &reader{ctx: ctx, l: l, tally: newTally(), named: make(map[string]bool)}
	err := r.read()
	if unknown := notMeasured(err); unknown != "" {
		return Report{Unknown: unknown}, nil
	}
	if err != nil {
		return Report{}, layout.Unavailable(err)
	}
	return r.report(), nil
}

// report is what came of the reading.
func (r *reader) report() Report {
	out := Report{Warnings: r.warnings(), Keys: r.keys, Measured: r.measured, Existing: r.existing}
	kinds := Kinds[:len(Kinds)-1]
	if r.unsaid == nil {
		out.Used, out.Limit, kinds = int64(r.used), int64(r.limit), Kinds
		r.kinds[Server] = max(0, r.used-sum(maps.Values(r.kinds)))
	}
	for _, k := range kinds {
		out.Kinds = append(out.Kinds, KindUsage{k, int64(r.kinds[k])})
	}
	for name, o := range r.owners {
		if name != "" {
			out.Namespaces = append(out.Namespaces, Namespace{
				name, int64(o.tasks + 0.5), int64(o.taskBytes), int64(o.schedules + 0.5), int64(o.scheduleBytes),
			})
		}
	}
	slices.SortFunc(out.Namespaces, func(a, b Namespace) int {
		return cmp.Or(cmp.Compare(b.TaskBytes+b.ScheduleBytes, a.TaskBytes+a.ScheduleBytes), cmp.Compare(a.Name, b.Name))
	})
	out.Namespaces = out.Namespaces[:min(len(out.Namespaces), NamespaceLimit)]
	for i := range r.schedules {
		r.schedules[i].Runs = int64(r.runs[r.schedules[i].Ref])
	}
	slices.SortFunc(r.schedules, func(a, b ScheduleUsage) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	out.Schedules = r.schedules[:min(len(r.schedules), ScheduleLimit)]
	return out
}

// warnings says what the user of Redis has no right to know, in sentences without a full stop.
func (r *reader) warnings() []string {
	var all []string
	if n := int64(r.unmeasured + 0.5); n > 0 {
		const text = "Redis does not let this node measure %d of its %d keys, such as those of other programs: %s"
		where := "their bytes are part of server"
		if r.unsaid != nil {
			where = "their bytes are missing"
		}
		all = append(all, fmt.Sprintf(text, n, r.keys, where))
	}
	if r.unsaid != nil {
		all = append(all, "Redis does not say how much memory it uses, so server is missing: "+r.unsaid.Error())
	}
	return all
}
