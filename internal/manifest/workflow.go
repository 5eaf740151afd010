package manifest

import "encoding/json"

// WorkflowText returns the definition of a workflow, which is JSON as the server answers it, as YAML.
func WorkflowText(raw json.RawMessage) (string, error) {
	node, err := YAML(escapeUnprintable(raw))
	if err != nil {
		return "", err
	}
	return Text(node)
}

// WorkflowDocument returns a document that has a workflow, whose definition is JSON as the server answers it, and
// nothing else.
func WorkflowDocument(namespace, id string, definition json.RawMessage) (Document, error) {
	w := Workflow{ID: id}
	err := json.Unmarshal(definition, &w.Workflow)
	return Document{Namespace: namespace, Workflows: []Workflow{w}}, err
}
