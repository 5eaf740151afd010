package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// format is how results are printed; the zero value is a table. It is a pflag.Value.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

func (f *format) String() string {
	if *f == "" {
		return string(formatTable)
	}
	return string(*f)
}

func (f *format) Set(text string) error {
	switch format(text) {
	case formatTable, formatJSON, formatYAML:
		*f = format(text)
		return nil
	}
	return fmt.Errorf("must be table, json or yaml")
}

func (f *format) Type() string { return "format" }

// isTable says whether results are printed for people, or as lines with tabs.
func (s *session) isTable() bool { return s.format == "" || s.format == formatTable }

// show prints an answer: as it came with -o json, as YAML with -o yaml, else as table does.
func (s *session) show(raw json.RawMessage, table func() error) error {
	switch s.format {
	case formatJSON:
		return s.printJSON(raw)
	case formatYAML:
		return s.printYAML(raw)
	}
	return table()
}

// showLine is as show, for one of a row of things without end: JSON takes exactly one line.
func (s *session) showLine(raw json.RawMessage, table func() error) error {
	if s.format == formatJSON {
		return s.printf("%s\n", raw)
	}
	return s.show(raw, table)
}

// printJSON breaks the lines for a terminal only.
func (s *session) printJSON(raw json.RawMessage) error {
	if !s.OutIsTerminal {
		return s.printf("%s\n", raw)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return misunderstood(err)
	}
	return s.printf("%s\n", b.Bytes())
}

func (s *session) printYAML(raw json.RawMessage) error {
	node, err := yamlOf(raw)
	if err != nil {
		return misunderstood(err)
	}
	var b bytes.Buffer
	b.WriteString("---\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return fmt.Errorf("printing YAML: %w", err)
	}
	return s.printf("%s", b.Bytes())
}

// yamlOf is a JSON document as YAML, its keys in their order.
func yamlOf(raw json.RawMessage) (*yaml.Node, error) {
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
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

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
		block.Style = yaml.FlowStyle // {} and []: there is no other way to write them
	}
	_, err := dec.Token() // the end
	return block, err
}

// printf writes to the results.
func (s *session) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.Out, format, args...); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
