package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Text writes YAML as a file.
func Text(node *yaml.Node) (string, error) {
	var b strings.Builder
	b.WriteString("---\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	return b.String(), nil
}

// YAML returns a JSON document as YAML, with its keys in the same order.
func YAML(raw json.RawMessage) (*yaml.Node, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return yamlValue(dec)
}

func yamlValue(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		return yamlBlock(dec, v)
	case string:
		return yamlText(v), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// yamlText quotes texts that the YAML package would write in a form that cannot be read again. These have line breaks,
// and blanks where a block of lines would need more than indentation. It also quotes texts that other programs take for
// something else, as 1e400 for a number, or yes for true.
func yamlText(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.Contains(text, "\n") && oddBlanks.MatchString(text) ||
		json.Valid([]byte(text)) || otherMeaning.MatchString(text) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// otherMeaning is what YAML 1.1 takes for a boolean, or for a number of base 60.
var otherMeaning = regexp.MustCompile(`^(?:(?i:y|yes|n|no|on|off)|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?)$`)

var oddBlanks = regexp.MustCompile(`^\s|[\t\r]|[ ]\n`)

// yamlBlock reads an object or a list. In an object, each key is read as a value before its value.
func yamlBlock(dec *json.Decoder, open json.Delim) (*yaml.Node, error) {
	block := &yaml.Node{Kind: yaml.MappingNode}
	if open == '[' {
		block.Kind = yaml.SequenceNode
	}
	for dec.More() {
		v, err := yamlValue(dec)
		if err != nil {
			return nil, err
		}
		block.Content = append(block.Content, v)
	}
	if len(block.Content) == 0 {
		block.Style = yaml.FlowStyle // {} and []: YAML has no other form for them
	}
	_, err := dec.Token() // the closing delimiter
	return block, err
}
