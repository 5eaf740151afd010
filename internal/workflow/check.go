package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// section is a part of a workflow whose steps need each other.
type section int

const (
	main section = iota
	onFailure
	finally
	sections
)

// name returns what the section is called in a definition.
func (s section) name() string { return [...]string{"steps", "on_failure", "finally"}[s] }

// of returns the steps of a section.
func (s section) of(d Definition) []Step { return [...][]Step{d.Steps, d.OnFailure, d.Finally}[s] }

// Validate checks a definition as a whole. Its error is a *task.Error with CodeInvalid and the field, such as
// "steps[2].needs[0]"; the message says what would be valid. It names all fields that are invalid.
func (d Definition) Validate() error {
	_, err := Compile(d)
	return err
}

// validate checks all but what steps need and their expressions.
func (d Definition) validate() error {
	probe := task.Definition{Ref: task.Ref{Namespace: d.Namespace, ID: "any"}, Type: "any"}
	probe.Queue, probe.Payload = task.DefaultQueue, []byte("{}")
	probe.Owner, probe.Labels, probe.Retention = d.Owner, d.Labels, d.Retention
	return task.JoinChecks([]func() error{
		func() error {
			if d.ID == "" { // it is part of a run
				return nil
			}
			return ValidateID(d.ID)
		},
		func() error { return probe.Validate(zero) },
		func() error { return task.ValidateText("description", d.Description, DescriptionLimit) },
		func() error { return validateParams("params", d.Params) },
		d.validateLimits,
		func() error { return d.validateSteps(main, StepsLimit) },
		func() error { return d.validateSteps(onFailure, AroundLimit) },
		func() error { return d.validateSteps(finally, AroundLimit) },
		d.validateIDs,
		d.validateWaits,
	})
}

// hasTooManySteps reports whether a section has more steps than it may.
func (d Definition) hasTooManySteps() bool {
	return len(d.Steps) > StepsLimit || len(d.OnFailure) > AroundLimit || len(d.Finally) > AroundLimit
}

// ValidateID checks the id of a workflow. Error: CodeInvalid.
func ValidateID(id string) error { return task.ValidateShortID(id, IDLimit) }

// reserved are names that expressions cannot have: words of CEL, and those of JSON.
var reserved = strings.Fields("true false null in as break const continue else for function if import let loop " +
	"package namespace return var void while")

// ValidateStepID checks the id of a step, or the name of a param or a signal, which expressions can name. Error:
// CodeInvalid in that field.
func ValidateStepID(field, id string) error {
	switch {
	case id == "":
		return task.Invalid(field, "is missing")
	case len(id) > StepIDLimit:
		return task.Invalid(field, "is %d characters long, at most %d are allowed", len(id), StepIDLimit)
	case !isStepID(id):
		return task.Invalid(field, "%q must be a letter and further ones of a-z, 0-9 and _", id)
	case slices.Contains(reserved, id):
		return task.Invalid(field, "%q is a word of expressions: take another name", id)
	}
	return nil
}

func isStepID(id string) bool {
	for i, c := range id {
		if (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '_') {
			return false
		}
	}
	return true
}

// validateParams checks declarations in a field.
func validateParams(field string, params []Param) error {
	if len(params) > ParamsLimit {
		return task.Invalid(field, "there are %d, at most %d are allowed", len(params), ParamsLimit)
	}
	var errs []error
	seen := map[string]bool{}
	for _, p := range params {
		errs = append(errs, task.Within(field+"."+p.Name, p.validate()))
		if seen[p.Name] {
			errs = append(errs, task.Invalid(field+"."+p.Name, "is there twice"))
		}
		seen[p.Name] = true
	}
	return task.Join(errs...)
}

func (d Definition) validateLimits() error {
	var errs []error
	if d.Failure != "" && d.Failure != FailureFinish && d.Failure != FailureStop {
		errs = append(errs, task.Invalid("failure", "%q must be finish or stop", d.Failure))
	}
	if d.Deadline != 0 && (d.Deadline < SpanMin || d.Deadline > DeadlineLimit) {
		errs = append(errs, task.Invalid("deadline", "%s must be %s to %s", d.Deadline, SpanMin, DeadlineLimit))
	}
	if d.Closing != 0 && (d.Closing < SpanMin || d.Closing > ClosingLimit) {
		errs = append(errs, task.Invalid("closing", "%s must be %s to %s", d.Closing, SpanMin, ClosingLimit))
	}
	if d.AtOnce < 0 || d.AtOnce > AtOnceLimit {
		errs = append(errs, task.Invalid("at_once", "%d must be 1 to %d, or 0 for no bound", d.AtOnce, AtOnceLimit))
	}
	if d.MaxRuns < 0 || d.MaxRuns > MaxRunsLimit {
		errs = append(errs, task.Invalid("max_runs", "%d must be 1 to %d, or 0 for no bound", d.MaxRuns, MaxRunsLimit))
	}
	return task.Join(errs...)
}

// validateSteps checks each step of a section for itself.
func (d Definition) validateSteps(in section, limit int) error {
	steps := in.of(d)
	if in == main && len(steps) == 0 {
		return task.Invalid("steps", "is empty: a workflow has at least one step")
	}
	if len(steps) > limit {
		return task.Invalid(in.name(), "there are %d, at most %d are allowed", len(steps), limit)
	}
	var errs []error
	for i, s := range steps {
		errs = append(errs, task.Within(fmt.Sprintf("%s[%d]", in.name(), i), s.validate()))
	}
	return task.Join(errs...)
}

// validate checks a step for itself.
func (s Step) validate() error {
	return task.JoinChecks([]func() error{
		func() error { return ValidateStepID("id", s.ID) },
		func() error {
			if _, known := final[s.EffectiveRule()]; !known {
				return task.Invalid("rule", "%q must be one of %s", s.Rule, join(Rules))
			}
			if len(s.Needs) > NeedsLimit {
				return task.Invalid("needs", "there are %d, at most %d are allowed", len(s.Needs), NeedsLimit)
			}
			return nil
		},
		func() error {
			switch {
			case s.kinds() != 1:
				return task.Invalid("task", "a step has one of these: task, wait, decide")
			case s.Task != nil:
				return task.Within("task", validateTask(*s.Task))
			case s.Wait != nil && !s.Wait.isOne():
				return task.Invalid("wait", "a step waits for one of these: for, until, signal, approval")
			case s.Wait != nil:
				return task.Within("wait", s.Wait.validate())
			case s.AllowFailure:
				return task.Invalid("allow_failure", "is for a task or a wait, and this step decides")
			}
			return s.validateChoices()
		},
	})
}

// kinds counts what a step is: one of three things.
func (s Step) kinds() (n int) {
	for _, is := range []bool{s.Task != nil, s.Wait != nil, len(s.Decide) > 0} {
		if is {
			n++
		}
	}
	return n
}

// validateWaits checks how many steps wait.
func (d Definition) validateWaits() error {
	n := 0
	for in := range sections {
		for _, s := range in.of(d) {
			if s.Wait != nil {
				n++
			}
		}
	}
	if n > WaitsLimit {
		return task.Invalid("steps", "%d of them wait, at most %d may", n, WaitsLimit)
	}
	return nil
}

// validateTask checks the task of a step, but not its expressions.
func validateTask(d task.Definition) error {
	for field, is := range map[string]bool{
		"id": d.ID != "", "delay": d.Delay != 0 || !d.RunAt.IsZero(), "retention": d.Retention != 0, "on_end": d.OnEnd != nil,
		"once": d.Once != nil,
	} {
		if is {
			return task.Invalid(field, "a step's task cannot have it")
		}
	}
	d.Ref = task.Ref{Namespace: task.DefaultNamespace, ID: "any"}
	return d.Normalize().Validate(zero)
}

func (s Step) validateChoices() error {
	if len(s.Decide) > ChoicesLimit {
		return task.Invalid("decide", "has %d branches, at most %d are allowed", len(s.Decide), ChoicesLimit)
	}
	for i, c := range s.Decide {
		last := i == len(s.Decide)-1
		switch field := fmt.Sprintf("decide[%d]", i); {
		case last && c.When != "":
			return task.Invalid(field, "the last branch must be else, for when no other one holds")
		case !last && c.When == "":
			return task.Invalid(field, "has no when: only the last branch is else")
		}
	}
	return nil
}

// validateIDs checks that no two steps have the same id.
func (d Definition) validateIDs() error {
	first := map[string]string{}
	var errs []error
	for in := range sections {
		for i, s := range in.of(d) {
			field := fmt.Sprintf("%s[%d].id", in.name(), i)
			if other, twice := first[s.ID]; twice {
				errs = append(errs, task.Invalid(field, "%s is the id of %s already", s.ID, strings.TrimSuffix(other, ".id")))
				continue
			}
			first[s.ID] = field
		}
	}
	return task.Join(errs...)
}

// join lists values, for people.
func join[T any](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprintf("%s", any(v))
	}
	return strings.Join(texts, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
