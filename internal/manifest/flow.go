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
