package why

import (
	"fmt"

	"github.com/dts-sched/dts/internal/task"
)

// turn says in which order a task that is due is handed over, if not by the time when it was due alone.
func (f TaskFacts) turn() string {
	text, t := "", f.Task
	switch others := keys(f.Keys); {
	case t.FairKey != "" && f.Keys > 0:
		text = fmt.Sprintf(" The tasks of its fair key, %q, take turns with those of %s.", t.FairKey, others)
	case t.FairKey == "" && f.Keys > 0:
		text = fmt.Sprintf(" It has no fair key: such tasks take turns with those of %s.", others)
	}
	if t.Priority > 0 {
		const rule = " Its priority is %d: it comes as if it had been due %d s earlier."
		text += fmt.Sprintf(rule, t.Priority, t.Priority*int(task.PriorityStep.Seconds()))
	}
	return text
}

// keys counts fair keys in words.
func keys(n int) string {
	if n == 1 {
		return "another fair key"
	}
	return fmt.Sprintf("%d other fair keys", n)
}
