package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	return f, nil
}

// article puts an article before what a value is.
func article(value string) string {
	if strings.HasPrefix(value, "a") || strings.HasPrefix(value, "o") {
		return "an " + value
	}
	return "a " + value
}

// sections are the steps, as they are drawn. Error: bad usage, for what has the wrong type.
func (f file) sections() ([]graph.Section, error) {
	if f.wrong != nil { // no server says it
		return nil, command.Usagef("%v", manifest.Faults{f.Fault(f.wrong.Field, "cannot be "+article(f.wrong.Value))})
	}
	d, drawn := f.definition, func(s words.Step) graph.Step { return graph.Step{ID: s.ID, Needs: s.Needs} }
	return graph.SectionsOf(d.Steps, d.OnFailure, d.Finally, drawn), nil
}

// params reads values that are given as NAME=VALUE. One of a parameter that is a string is taken as it is; others are
// JSON, or a string if they are not.
func (f file) params(texts []string) (wire.RunParams, error) {
	pairs, err := flags.Pairs("--param", "=", texts)
	if err != nil || pairs == nil {
		return nil, err
	}
	params := make(wire.RunParams, len(pairs))
	for name, text := range pairs {
		raw := json.RawMessage(text)
		if f.definition.Params[name].Type == "string" || !json.Valid(raw) {
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
	for _, one := range refusal.Invalid() {
		field := wire.Value(one.Field)
		in, found := strings.CutPrefix(field, prefix)
		if !found || field == "" {
			return err
		}
		fault := f.Fault(in, strings.TrimPrefix(one.Detail, field+": "))
		p.Errorf("%s: %s (%s)", fault.Place(), fault.Message(), refusal.Code)
	}
	return command.ErrReported
}
