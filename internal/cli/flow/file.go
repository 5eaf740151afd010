package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/workflow/graph"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// file is a file with the definition of a workflow. The server checks all of it.
type file struct {
	manifest.Single
	definition words.Workflow // without what has the wrong type
	wrong      *json.UnmarshalTypeError
}

// readFile reads a file, or standard input as "-". Error: bad usage.
func readFile(stdin io.Reader, name string) (file, error) {
	in, err := flags.OpenInput(stdin, name)
	if err != nil {
		return file{}, command.Usagef("--file: %v", err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, flags.TextLimit+1))
	var inFile *fs.PathError
	switch {
	case errors.As(err, &inFile):
		return file{}, command.Usagef("--file: %s: %v", name, inFile.Err)
	case err != nil:
		return file{}, command.Usagef("--file: %v", err)
	case len(text) > flags.TextLimit:
		return file{}, command.Usagef("--file: %s holds more than %d bytes", name, flags.TextLimit)
	}
	single, err := manifest.ReadSingle(manifest.Source{Name: name, Text: text})
	if err != nil {
		return file{}, command.Usagef("%v", err)
	}
	f := file{Single: single}
	errors.As(json.Unmarshal(single.Body, &f.definition), &f.wrong)
	var lists map[string]json.RawMessage
	if json.Unmarshal(single.Body, &lists) == nil {
		for _, name := range []string{"workflows", "schedules", "tasks"} {
			if _, is := lists[name]; is {
				const text = "is no field of a workflow: this is a file for \"dtsctl apply -f\""
				return file{}, command.Usagef("%v", manifest.Faults{f.Fault(name, text)})
			}
		}
	}
	return f, nil
}

// article puts an article before what a value is.
func article(value string) string {
	if strings.HasPrefix(value, "a") || strings.HasPrefix(value, "o") {
		return "an " + value
	}
	return "a " + value
}

// order says why steps have no order: what is missing, there twice, or in a circle.
func (f file) order(section string, steps []words.Step) (faults manifest.Faults) {
	left := make(map[string][]string, len(steps)) // what each needs that is not before it
	for i, s := range steps {
		at := fmt.Sprintf("%s[%d]", section, i)
		if _, twice := left[s.ID]; twice || s.ID == "" {
			faults = append(faults, f.Fault(at+".id", fmt.Sprintf("%q is missing, or is there twice", s.ID)))
		}
		left[s.ID] = s.Needs
		for j, id := range s.Needs {
			if !slices.ContainsFunc(steps, func(other words.Step) bool { return other.ID == id }) {
				what := fmt.Sprintf("%q is no step of %s", id, section)
				faults = append(faults, f.Fault(fmt.Sprintf("%s.needs[%d]", at, j), what))
			}
		}
	}
	if len(faults) > 0 {
		return faults
	}
	for more := true; more; {
		more = false
		for id, needs := range left {
			if !slices.ContainsFunc(needs, func(need string) bool { _, is := left[need]; return is }) {
				delete(left, id)
				more = true
			}
		}
	}
	if len(left) > 0 {
		circle := strings.Join(slices.Sorted(maps.Keys(left)), ", ")
		faults = append(faults, f.Fault(section, "have no order: these are in a circle, or behind one: "+circle))
	}
	return faults
}

// sections are the steps, as they are drawn. Error: bad usage, for fields that no workflow has, for what has the wrong
// type, or no order.
func (f file) sections() ([]graph.Section, error) {
	if f.wrong != nil { // no server says it
		return nil, command.Usagef("%v", manifest.Faults{f.Fault(f.wrong.Field, "cannot be "+article(f.wrong.Value))})
	}
	if faults := f.WorkflowFaults(); len(faults) > 0 {
		return nil, command.Usagef("%v", faults)
	}
	d, drawn := f.definition, func(s words.Step) graph.Step { return graph.Step{ID: s.ID, Needs: s.Needs} }
	faults := slices.Concat(f.order("steps", d.Steps), f.order("on_failure", d.OnFailure), f.order("finally", d.Finally))
	if len(d.Steps) == 0 {
		faults = append(faults, f.Fault("steps", "is missing: which steps does it have?"))
	}
	if len(faults) > 0 {
		return nil, command.Usagef("%v", faults.InOrder())
	}
	return graph.SectionsOf(d.Steps, d.OnFailure, d.Finally, drawn), nil
}

// valuesOf reads values of parameters that are given as NAME=VALUE. One of a parameter that is a string is taken as it
// is; others are JSON, or a string if they are not.
func valuesOf(declared map[string]words.Param, texts []string) (wire.RunParams, error) {
	pairs, err := flags.Pairs("--param", "=", texts)
	if err != nil || pairs == nil {
		return nil, err
	}
	params := make(wire.RunParams, len(pairs))
	for name, text := range pairs {
		raw := json.RawMessage(text)
		if declared[name].Type == "string" || !json.Valid(raw) {
			if raw, err = wire.Encode(text); err != nil {
				return nil, fmt.Errorf("--param %s: %w", name, err)
			}
		}
		params[name] = raw
	}
	return params, nil
}

// refused tells what of the file, if there is one, the server finds invalid, and where it is. It returns other errors
// as they are.
func (f file) refused(p *printer.Printer, err error) error { return f.refusedAt(p, "definition.", err) }

// refusedAt is refused for an answer that has a prefix before the fields of the file.
func (f file) refusedAt(p *printer.Printer, prefix string, err error) error {
	refusal := rest.RefusalIn(err)
	if refusal == nil || f.Body == nil {
		return err
	}
	var faults manifest.Faults
	var elsewhere []string // what is wrong with arguments
	for _, one := range refusal.Invalid() {
		field := wire.Value(one.Field)
		in, found := strings.CutPrefix(field, prefix)
		switch {
		case field == "":
			return err
		case !found || field == idField:
			elsewhere = append(elsewhere, one.Detail)
		default:
			faults = append(faults, f.Fault(in, strings.TrimPrefix(one.Detail, field+": ")))
		}
	}
	for _, text := range elsewhere {
		p.Errorf("%s (%s)", text, refusal.Code)
	}
	for _, fault := range faults.InOrder() {
		p.Errorf("%s: %s (%s)", fault.Place(), fault.Message(), refusal.Code)
	}
	return command.ErrReported
}

// idField is the field that no file has: the id of a run, or of a workflow, is an argument.
const idField = "id"
