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
)

// file is a file with the definition of a workflow.
type file struct {
	manifest.Single
	known knownParts
}

// knownParts are what the commands use of a definition. The server checks all of it.
type knownParts struct {
	Params map[string]struct {
		Type string `json:"type"`
	} `json:"params"`
	Steps     []knownStep `json:"steps"`
	OnFailure []knownStep `json:"on_failure"`
	Finally   []knownStep `json:"finally"`
}

type knownStep struct {
	ID    string   `json:"id"`
	Needs []string `json:"needs"`
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
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(single.Body, &f.known); errors.As(err, &wrong) {
		// The server would say the same, and where: without one, this does.
		return f, command.Usagef("%v", manifest.Faults{f.Fault(wrong.Field, "cannot be "+article(wrong.Value))})
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

// sections are the steps, as they are drawn.
func (f file) sections() (sections []graph.Section) {
	for _, part := range []struct {
		name  string
		steps []knownStep
	}{{"steps", f.known.Steps}, {"on_failure", f.known.OnFailure}, {"finally", f.known.Finally}} {
		if len(part.steps) == 0 && part.name != "steps" {
			continue
		}
		section := graph.Section{Name: part.name}
		for _, s := range part.steps {
			section.Steps = append(section.Steps, graph.Step{ID: s.ID, Needs: s.Needs})
		}
		sections = append(sections, section)
	}
	return sections
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
		if f.known.Params[name].Type == "string" || !json.Valid(raw) {
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
