// Package flowtest makes random workflows for tests.
package flowtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// Any returns a valid workflow of up to most steps, and up to two each of OnFailure and Finally: with all rules,
// conditions, and steps that decide. The payloads of its tasks, of type custom, are objects, some of them with
// expressions. Conditions and payloads may read outputs, whose field n is a number.
func Any(random *rand.Rand, most int) workflow.Definition {
	return define(random, most, func(*workflow.Step) {})
}

// AnyThatWaits is Any with steps that wait: for up to three seconds, for one of the Signals, and for approvals. Their
// timeouts are an hour, or none.
func AnyThatWaits(random *rand.Rand, most int) workflow.Definition {
	return define(random, most, func(s *workflow.Step) {
		if random.IntN(4) == 0 {
			s.Task, s.Wait = nil, wait(random)
		}
	})
}

// Signals are the names of all signals for which steps wait.
var Signals = []string{"one", "two"}

func wait(random *rand.Rand) *workflow.Wait {
	w := &workflow.Wait{}
	switch random.IntN(4) {
	case 0:
		w.For = time.Duration(1+random.IntN(3000)) * time.Millisecond
		return w
	case 1:
		w.Until = "${{ run.started }}"
		return w
	case 2:
		w.Signal = Signals[random.IntN(len(Signals))]
	default:
		w.Approval = &workflow.Approval{}
	}
	if random.IntN(2) == 0 {
		w.Timeout = time.Hour
		w.OnTimeout = []workflow.OnTimeout{
			"", workflow.TimeoutFail, workflow.TimeoutSkip, workflow.TimeoutContinue,
		}[random.IntN(4)]
	}
	return w
}

func define(random *rand.Rand, most int, alter func(*workflow.Step)) workflow.Definition {
	for {
		d := workflow.Definition{
			Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "any"}, AtOnce: random.IntN(4) * random.IntN(3),
			Steps:     steps(random, "s", 1+random.IntN(most), alter),
			OnFailure: steps(random, "o", random.IntN(3), alter),
			Finally:   steps(random, "f", random.IntN(3), alter),
		}
		if random.IntN(4) == 0 {
			d.Failure = workflow.FailureStop
		}
		if random.IntN(4) == 0 {
			d.Output = json.RawMessage(`{"of": "${{ steps.s0.output }}", "state": "${{ steps.s0.state }}"}`)
		}
		if _, err := workflow.Compile(d); err == nil {
			return d
		} else if task.CodeOf(err) != task.CodeInvalid {
			panic(err) // a step that can never be released is invalid, and nothing else may go wrong
		}
	}
}

func steps(random *rand.Rand, prefix string, n int, alter func(*workflow.Step)) []workflow.Step {
	all := make([]workflow.Step, n)
	for i := range all {
		all[i] = step(random, all[:i])
		alter(&all[i])
		all[i].ID = fmt.Sprint(prefix, i)
	}
	for i := range all {
		if random.IntN(6) == 0 {
			decideAt(random, all, i)
		}
	}
	return all
}

// step returns a step that needs some of the newest of those before it.
func step(random *rand.Rand, before []workflow.Step) workflow.Step {
	s := workflow.Step{AllowFailure: random.IntN(6) == 0}
	for j := range min(len(before), 6) {
		if random.IntN(3) == 0 {
			s.Needs = append(s.Needs, before[len(before)-1-j].ID)
		}
	}
	if random.IntN(2) == 0 {
		s.Rule = workflow.Rules[random.IntN(len(workflow.Rules))]
	}
	if len(s.Needs) > 0 && random.IntN(5) == 0 {
		s.When = fmt.Sprintf([]string{
			`steps.%s.state != "failed"`, `steps.%s.output.n > 1`, `${{ steps.%s.attempt < 2 }}`,
		}[random.IntN(3)], s.Needs[0])
	}
	s.Task = &task.Definition{Type: "custom", Payload: json.RawMessage(`{"run": "${{ run.id }}"}`)}
	if len(s.Needs) > 0 && random.IntN(3) == 0 {
		s.Task.Payload = json.RawMessage(fmt.Sprintf(`{"before": "${{ steps.%s.output }}"}`, s.Needs[0]))
	}
	return s
}

// decideAt has a step decide which of those go on that need it.
func decideAt(random *rand.Rand, all []workflow.Step, at int) {
	s := &all[at]
	var behind []string
	for _, other := range all[at+1:] {
		if slices.Contains(other.Needs, s.ID) {
			behind = append(behind, other.ID)
		}
	}
	if len(behind) == 0 {
		return
	}
	s.Task, s.Wait, s.AllowFailure = nil, nil, false
	when := fmt.Sprintf(`run.attempt == %d`, 1+random.IntN(2))
	s.Decide = []workflow.Choice{{When: when, Then: behind[:1]}, {Then: behind[random.IntN(len(behind)):]}}
}
