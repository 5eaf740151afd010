package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/expr"
)

// step returns a step with a task.
func step(id string, needs ...string) Step {
	return Step{ID: id, Needs: needs, Task: &task.Definition{Type: "custom"}}
}

func workflow(steps ...Step) Definition {
	return Definition{Ref: task.Ref{Namespace: "default", ID: "etl"}, Steps: steps}
}

func TestValidate_NamesTheFieldAndWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	work := &task.Definition{Type: "x"}
	for name, c := range map[string]struct {
		d     Definition
		field string
		says  string
	}{
		"no steps":      {workflow(), "steps", "at least one"},
		"no id":         {workflow(step("")), "steps[0].id", "missing"},
		"capitals":      {workflow(step("Load")), "steps[0].id", "a-z"},
		"a word of CEL": {workflow(step("in")), "steps[0].id", "take another name"},
		"twice":         {workflow(step("a"), step("a")), "steps[1].id", "is the id of steps[0] already"},
		"unknown need":  {workflow(step("load"), step("b", "loads")), "steps[1].needs[0]", "did you mean load?"},
		"itself":        {workflow(step("a", "a")), "steps[0].needs[0]", "itself"},
		"need twice":    {workflow(step("a"), step("b", "a", "a")), "steps[1].needs[1]", "twice"},
		"a cycle": {
			workflow(step("a", "c"), step("b", "a"), step("c", "b")), "steps[0].needs", "a needs c needs b needs a",
		},
		"behind a cycle": {workflow(step("x", "b"), step("a", "b"), step("b", "a")), "steps[2].needs", "b needs a needs b"},
		"another section": {
			with(workflow(step("a")), func(d *Definition) { d.Finally = []Step{step("b", "a")} }),
			"finally[0].needs[0]", "only others of it",
		},
		"a rule":  {workflow(Step{ID: "a", Rule: "sometimes", Task: work}), "steps[0].rule", "all_done"},
		"neither": {workflow(Step{ID: "a"}), "steps[0].task", "one of these: task, wait, decide"},
		"no type": {workflow(Step{ID: "a", Task: &task.Definition{}}), "steps[0].task.type", "missing"},
		"a delay": {
			workflow(Step{ID: "a", Task: &task.Definition{Type: "x", Delay: time.Second}}), "steps[0].task.delay", "cannot",
		},
		"a condition": {workflow(Step{ID: "a", When: "params.x", Task: work}), "steps[0].when", "no param"},
		"no else": {
			workflow(Step{ID: "a", Decide: []Choice{{When: "true", Then: []string{"b"}}}}, step("b", "a")),
			"steps[0].decide[0]", "else",
		},
		"then of a stranger": {
			workflow(Step{ID: "a", Decide: []Choice{{Then: []string{"b"}}}}, step("b")), "steps[0].decide[0].then[0]", "needs a",
		},
		"never": {
			workflow(step("a"), Step{ID: "b", Needs: []string{"a"}, Rule: RuleAllSkipped, Task: work}),
			"steps[1].rule", "can never hold",
		},
		"a shell": {
			workflow(step("a"), Step{ID: "b", Needs: []string{"a"}, Task: &task.Definition{
				Type: "shell", Payload: json.RawMessage(`{"command":["sh","-c","echo ${{ steps.a.output }}"]}`),
			}}), "steps[1].task.payload.command[2]", "",
		},
		"a long payload": {
			workflow(Step{ID: "a", Task: &task.Definition{Type: "custom", Payload: json.RawMessage(
				`{"x":"` + strings.Repeat("x", expr.ValueLimit) + `","y":"${{ run.id }}"}`),
			}}), "steps[0].task.payload", "longer than 64 KiB",
		},
		"no ancestor": {
			workflow(step("a"), Step{ID: "b", Task: &task.Definition{
				Type: "custom", Payload: json.RawMessage(`{"x":"${{ steps.a.output }}"}`),
			}}), "steps[1].task.payload.x", "a",
		},
		"a deadline": {with(workflow(step("a")), func(d *Definition) { d.Deadline = time.Millisecond }), "deadline", "1s to"},
		"a failure":  {with(workflow(step("a")), func(d *Definition) { d.Failure = "panic" }), "failure", "finish or stop"},
		"an output": {
			with(workflow(step("a")), func(d *Definition) { d.Output = json.RawMessage(`"${{ steps.b.output }}"`) }),
			"output", "b",
		},
		"a param": {
			with(workflow(step("a")), func(d *Definition) { d.Params = []Param{{Name: "n", Type: "int"}} }),
			"params.n.type", "integer",
		},
		"a default": {
			with(workflow(step("a")), func(d *Definition) {
				d.Params = []Param{{Name: "n", Type: expr.Integer, Default: json.RawMessage(`"x"`)}}
			}), "params.n.default", "type integer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var invalid *task.Error
			if err := c.d.Validate(); !errors.As(err, &invalid) {
				t.Fatalf("the error is %v", err)
			}
			if invalid.Field != c.field || !strings.Contains(invalid.Message, c.says) {
				t.Errorf("%s: %s; want %s, and %q", invalid.Field, invalid.Message, c.field, c.says)
			}
		})
	}
}

// All that is wrong is told at once, unless one thing follows from the other.
func TestValidate_NamesAllFields(t *testing.T) {
	t.Parallel()
	d := workflow(Step{ID: "a", When: "params.n > nothing", Task: &task.Definition{Type: "x"}}, Step{ID: "b"})
	d.Deadline, d.Params = time.Millisecond, []Param{{Name: "n", Type: "int"}}
	expect := func(want string) {
		t.Helper()
		var invalid *task.Error
		if err := d.Validate(); !errors.As(err, &invalid) {
			t.Fatalf("the error is %v", err)
		}
		fields := invalid.Field
		for _, other := range invalid.Others {
			fields += " " + other.Field
		}
		if fields != want {
			t.Errorf("it names %s, want %s", fields, want)
		}
	}
	expect("params.n.type deadline steps[1].task steps[0].when")
	d.Steps[1].Needs = []string{"aa"}
	expect("params.n.type deadline steps[1].task steps[1].needs[0]")
}

func with(d Definition, change func(*Definition)) Definition {
	change(&d)
	return d
}

// All limits at once, as a definition may have them: this must stay quick, as a PUT waits for it.
func TestValidate_TakesTheLargestWorkflow(t *testing.T) {
	t.Parallel()
	var steps []Step
	for i := range StepsLimit {
		s := step(fmt.Sprint("s", i))
		for j := max(0, i-EdgesLimit/StepsLimit); j < i; j++ {
			s.Needs = append(s.Needs, fmt.Sprint("s", j))
		}
		steps = append(steps, s)
	}
	if err := workflow(steps...).Validate(); err != nil {
		t.Error(err)
	}
	for i := range 11 {
		last := &steps[StepsLimit-1-i]
		last.Needs = append(last.Needs, "s0", "s1", "s2", "s3", "s4", "s5")
	}
	if err := workflow(steps...).Validate(); err == nil || !strings.Contains(err.Error(), "10000") {
		t.Errorf("with too many edges: %v", err)
	}
}

func TestBind_ChecksWhatARunIsGiven(t *testing.T) {
	t.Parallel()
	low, high := 1.0, 10.0
	d := workflow(step("a"))
	d.Params = []Param{
		{Name: "day", Type: expr.String, Required: true, Pattern: `\d{4}`},
		{Name: "limit", Type: expr.Integer, Default: json.RawMessage(`5`), Min: &low, Max: &high},
		{Name: "mode", Type: expr.String, Enum: []json.RawMessage{[]byte(`"full"`), []byte(`"part"`)}},
		{Name: "tags", Type: expr.List},
	}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		`{"day":"2026"}`: "",
		`{"day":"2026","limit":10,"mode":"full"}`:  "",
		`{"day":"2026","tags":["a"]}`:              "",
		`{}`:                                       "params.day: is missing",
		`{"day":"26"}`:                             "params.day: \"26\" does not match",
		`{"day":2026}`:                             "params.day: 2026 is not of type string",
		`{"day":"2026","limit":11}`:                "params.limit: 11 is more than 10",
		`{"day":"2026","limit":1.5}`:               "params.limit: 1.5 is not of type integer",
		`{"day":"2026","mode":"none"}`:             `params.mode: "none" must be one of "full", "part"`,
		`{"day":"2026","dya":"x"}`:                 "params.dya: is no param of the workflow: it has day, limit, mode, tags",
		`{"day":"2026","tags":"a","limit":"many"}`: "params.limit",
	} {
		var params map[string]json.RawMessage
		if err := json.Unmarshal([]byte(given), &params); err != nil {
			t.Fatal(err)
		}
		values, err := d.Bind(params)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %q", given, err, want)
		case want == "" && params["limit"] == nil && fmt.Sprint(values["limit"]) != "5":
			t.Errorf("%s: the limit is %v, want its default", given, values["limit"])
		}
	}
}
