package route

import (
	"math"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Load says how much each measure counts for how idle a node is. Only the proportions matter.
type Load struct {
	CPU      float64 // of the share of the CPU that is idle
	Memory   float64 // of the share of memory that is free
	Slots    float64 // of the share of the slots that are free, without those for which tasks wait
	Response float64 // of the response time of the fastest node, as a share of its own
}

// DefaultLoad counts no response time: tasks of several kinds take different times on any node.
var DefaultLoad = Load{CPU: 0.4, Memory: 0.3, Slots: 0.3}

// unknown is what counts for a measure that a node does not have. It is no reason to choose the node or to avoid it.
const unknown = 0.5

// check says what is invalid about what a task demands. Error: CodeInvalid of the field at fault.
func (l Load) check(by Strategy) error {
	for _, factor := range []struct {
		field string
		value float64
	}{{"cpu", l.CPU}, {"memory", l.Memory}, {"slots", l.Slots}, {"response", l.Response}} {
		switch {
		case !(factor.value >= 0 && factor.value <= 1): // also for NaN
			return task.Invalid(factor.field, "%v must be 0 to 1", factor.value)
		case factor.value > 0 && by != Weighted:
			return task.Invalid(factor.field, "must be left out: only %s goes by it", Weighted)
		}
	}
	return nil
}

// among returns how idle each of some nodes is, times its weight.
func (l Load) among(nodes []*Candidate) func(*Candidate) float64 {
	if l == (Load{}) {
		l = DefaultLoad
	}
	fastest := time.Duration(0)
	for _, c := range nodes {
		if c.Response > 0 && (fastest == 0 || c.Response < fastest) {
			fastest = c.Response
		}
	}
	return func(c *Candidate) float64 {
		speed := unknown
		if c.Response > 0 {
			speed = float64(fastest) / float64(c.Response)
		}
		free := float64(c.free()) / float64(c.Slots)
		return float64(c.weight()) * (l.CPU*idle(c.CPU) + l.Memory*idle(c.Memory) + l.Slots*free + l.Response*speed)
	}
}

// idle is what of something is not in use.
func idle(used float64) float64 {
	if math.IsNaN(used) {
		return unknown
	}
	return 1 - min(max(used, 0), 1)
}
