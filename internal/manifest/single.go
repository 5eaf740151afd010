package manifest

import (
	"encoding/json"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/workflow/words"
)

// Single is a file that has one document, which only the server checks.
type Single struct {
	Body  json.RawMessage
	entry Entry
}

// ReadSingle reads a file of YAML or JSON. Error: Faults.
func ReadSingle(src Source) (Single, error) {
	r := &yamlReader{file: src.Name, limit: yamlNodes + len(src.Text)}
	var docs []*yaml.Node
	faults := documents(src, func(doc *yaml.Node) { docs = append(docs, doc) })
	if len(faults) == 0 && len(docs) == 0 {
		return Single{}, Faults{{File: src.Name, Text: "is empty"}}
	}
	var s Single
	for i, doc := range docs {
		switch {
		case i > 0:
			r.complain(doc, "", "is a second document: one is expected")
		case doc.Kind != yaml.MappingNode:
			r.complain(doc, "", "must be a mapping, not %s", kindOf(doc))
		default:
			s = Single{r.value(doc, "", rawType), Entry{file: src.Name, node: doc}}
		}
	}
	if faults = append(faults, r.faults...); len(faults) > 0 {
		return Single{}, faults.InOrder()
	}
	return s, nil
}

// WorkflowFaults returns which fields of the file no workflow has, or have a value of the wrong kind there.
func (s Single) WorkflowFaults() Faults {
	r := &yamlReader{file: s.entry.file, limit: yamlNodes + len(s.Body)}
	r.value(s.entry.node, "", reflect.TypeFor[words.Workflow]())
	return r.faults.InOrder()
}

// Fault returns the fault that a field of the file is, as Entry.Fault does.
func (s Single) Fault(field, text string) Fault { return s.entry.Fault(field, text) }
