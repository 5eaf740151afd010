package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile reads the settings of a YAML file, by name. Without a path there are none.
func (s *Settings) readFile(path string) (map[string]origin, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	found, err := s.parseFile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, o := range found {
		found[name] = origin{place: path + ": " + o.place, text: o.text}
	}
	return found, nil
}

func (s *Settings) parseFile(text []byte) (map[string]origin, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 { // an empty file
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: write settings as `name: value`", root.Line)
	}
	found := map[string]origin{}
	for pair := range slices.Chunk(root.Content, 2) {
		key, value := pair[0], pair[1]
		name, known := s.settingOf(key.Value)
		if _, twice := found[name]; twice {
			return nil, fmt.Errorf("line %d: %s is set twice", key.Line, key.Value)
		}
		if !known || name == fileFlag {
			return nil, fmt.Errorf("line %d: there is no setting %s%s", key.Line, key.Value, s.suggest(name, strings.Clone))
		}
		plain, err := textOf(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key.Value, err)
		}
		found[name] = origin{place: key.Value, text: plain}
	}
	return found, nil
}

// textOf writes a YAML value as its flag reads it: a list as a,b, a mapping as a=1,b=2. Pools are separated by
// semicolons, because they contain commas themselves.
func textOf(value *yaml.Node) (string, error) {
	switch value.Kind {
	case yaml.ScalarNode:
		if value.Tag == "!!null" {
			return "", fmt.Errorf("line %d: has no value", value.Line)
		}
		return value.Value, nil
	case yaml.SequenceNode:
		items, err := textsOf(value.Content)
		separator := ","
		if slices.ContainsFunc(items, func(item string) bool { return strings.Contains(item, ":") }) {
			separator = poolSeparator
		}
		return strings.Join(items, separator), err
	case yaml.MappingNode:
		var items []string
		for pair := range slices.Chunk(value.Content, 2) {
			both, err := textsOf(pair)
			if err != nil {
				return "", err
			}
			items = append(items, strings.Join(both, "="))
		}
		return strings.Join(items, ","), nil
	}
	return "", fmt.Errorf("line %d: write a plain value, a list or a mapping", value.Line)
}

func textsOf(values []*yaml.Node) ([]string, error) {
	var texts []string
	for _, v := range values {
		if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
			return nil, fmt.Errorf("line %d: write plain values in the list or mapping", v.Line)
		}
		texts = append(texts, v.Value)
	}
	return texts, nil
}
