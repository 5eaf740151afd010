package manifest

import (
	"encoding/json"

	"github.com/dts-sched/dts/internal/api/wire"
)

// FlowText returns the definition of a workflow, which is JSON as the server answers it, as YAML.
func FlowText(raw json.RawMessage) (string, error) {
	node, err := YAML(escapeUnprintable(raw))
	if err != nil {
		return "", err
	}
	return Text(node)
}

// FlowChanges returns the fields that differ between two definitions of a workflow, sorted by name. A field of a step
// has the id of that in its name, as in steps.load.needs, so that the order of steps does not count. The arguments are
// as for FlowText.
func FlowChanges(before, after json.RawMessage) ([]Change, error) {
	old, err := flowFields(before)
	if err != nil {
		return nil, err
	}
	changed, err := flowFields(after)
	return changesOf(old, changed), err
}

// flowFields returns the fields of a definition.
func flowFields(raw json.RawMessage) ([]Field, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, err
	}
	for _, section := range []string{"steps", "on_failure", "finally"} {
		if parts[section] == nil {
			continue
		}
		var steps []map[string]json.RawMessage
		if err := json.Unmarshal(parts[section], &steps); err != nil {
			return nil, err
		}
		byID := map[string]map[string]json.RawMessage{}
		for _, s := range steps {
			id := plain(s["id"])
			delete(s, "id")
			byID[id] = s
		}
		var err error
		if parts[section], err = wire.Encode(byID); err != nil {
			return nil, err
		}
	}
	whole, err := wire.Encode(parts)
	if err != nil {
		return nil, err
	}
	return flatten("", whole)
}
