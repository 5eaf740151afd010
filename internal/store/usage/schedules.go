package usage

import (
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua"
)

// readSchedules measures the keys of random schedules, of all if they are few, and extrapolates. It also measures the
// schedules whose tasks take most.
func (r *reader) readSchedules() error {
	keys := r.partitionKeys(func(p lua.Partition) string { return string(p.Schedules()) })
	sizes, err := r.counts(keys, func(pipe redis.Pipeliner, key string) *redis.IntCmd { return pipe.ZCard(r.ctx, key) })
	if err != nil {
		return err
	}
	wanted := allot(scheduleSamples, sizes)
	drawn, err := ask(r, keys, func(pipe redis.Pipeliner, i int) *redis.StringSliceCmd {
		return pipe.ZRandMember(r.ctx, keys[i], int(wanted[i]))
	})
	if err != nil {
		return err
	}
	var refs []task.Ref
	var scales []float64 // how many schedules each one stands for
	seen := make(map[task.Ref]bool)
	for i, cmd := range drawn {
		r.existing += int(sizes[i])
		for _, name := range cmd.Val() {
			if ref, err := task.ParseRef(name); err == nil && isSchedule(ref) {
				refs, scales = append(refs, ref), append(scales, float64(sizes[i])/float64(len(cmd.Val())))
				seen[ref] = true
			}
		}
	}
	r.measured = len(refs)
	for _, ref := range r.costliest() {
		if !seen[ref] {
			refs, scales = append(refs, ref), append(scales, 0)
		}
	}
	return r.measureSchedules(refs, scales)
}

// isSchedule reports whether a schedule can have that name.
func isSchedule(ref task.Ref) bool {
	named := task.ValidateName("namespace", ref.Namespace) == nil && task.ValidateName("id", ref.ID) == nil
	return named && len(ref.ID) <= schedule.IDLimit
}

// costliest are the schedules whose tasks take most.
func (r *reader) costliest() []task.Ref {
	refs := slices.Collect(maps.Keys(r.runs))
	slices.SortFunc(refs, func(a, b task.Ref) int {
		if r.runs[a] > r.runs[b] {
			return -1
		}
		return 1
	})
	return refs[:min(len(refs), ScheduleLimit)]
}

// measureSchedules measures schedules, each of which stands for scale schedules.
func (r *reader) measureSchedules(refs []task.Ref, scales []float64) error {
	var keys []string
	for _, ref := range refs {
		keys = append(keys, r.scheduleParts(ref)...)
	}
	bytes, err := r.measure(keys)
	if err != nil {
		return err
	}
	shared := r.kinds[Schedules] / max(1, float64(r.existing)) // of the sets of all schedules
	for i, ref := range refs {
		part := bytes[5*i : 5*i+5]
		own, name, scale := part[0]+part[1]+part[2], ref.String(), scales[i]
		r.addSchedule(Schedules, name, own*scale)
		r.addSchedule(Histories, name, part[3]*scale)
		r.addSchedule(Ledgers, name, part[4]*scale)
		r.of(name).scheduleBytes += shared * scale
		r.of(name).schedules += scale
		r.schedules = append(r.schedules, ScheduleUsage{
			Ref: ref, Own: int64(own), History: int64(part[3]), Ledger: int64(part[4]),
		})
	}
	return nil
}
