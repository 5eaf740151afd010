// Package flowtest makes random workflows for tests.
package flowtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// Any returns a valid workflow of up to most steps, and up to two each of OnFailure and Finally: with all rules,
// conditions, and steps that decide. The payloads of its tasks, of type custom, are objects, some of them with
// expressions. Conditions and payloads may read outputs, whose field n is a number.
func Any(random *rand.Rand, most int) workflow.Definition {
	for {
		d := workflow.Definition{
			Ref: task.Ref{Namespace: task.DefaultNamespace, ID: "any"}, AtOnce: random.IntN(4) * random.IntN(3),
			Steps:     steps(random, "s", 1+random.IntN(most)),
			OnFailure: steps(random, "o", random.IntN(3)),
			Finally:   steps(random, "f", random.IntN(3)),
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

func steps(random *rand.Rand, prefix string, n int) []workflow.Step {
	all := make([]workflow.Step, n)
	for i := range all {
		all[i] = step(random, all[:i])
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
	s.Task, s.AllowFailure = nil, false
	when := fmt.Sprintf(`run.attempt == %d`, 1+random.IntN(2))
	s.Decide = []workflow.Choice{{When: when, Then: behind[:1]}, {Then: behind[random.IntN(len(behind)):]}}
}
