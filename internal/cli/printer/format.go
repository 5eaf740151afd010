package printer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format is how results are printed. The zero value means Table. It is a pflag.Value.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// String returns the format's name.
func (f *Format) String() string {
	if *f == "" {
		return string(Table)
	}
	return string(*f)
}

// Set reads the format's name.
func (f *Format) Set(text string) error {
	switch Format(text) {
	case Table, JSON, YAML:
		*f = Format(text)
		return nil
	}
	return errors.New("must be table, json or yaml")
}

// Type names the kind of value in the help of a flag.
func (f *Format) Type() string { return "format" }

// PlainSigns returns JSON with the same meaning, in which &, < and > stand as they are and not as \u0026, \u003c and
// \u003e: some programs that write JSON escape them, for pages in HTML.
func PlainSigns(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u00`)) {
		return raw
	}
	return escape.ReplaceAllFunc(raw, func(found []byte) []byte {
		if sign, ok := plainSigns[strings.ToLower(string(found))]; ok {
			return []byte(sign)
		}
		return found
	})
}

// escape is what begins with a backslash in a string of JSON.
var escape = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

var plainSigns = map[string]string{`\u0026`: "&", `\u003c`: "<", `\u003e`: ">"}

// printJSON breaks the lines for a terminal only.
func (p *Printer) printJSON(raw json.RawMessage) error {
	raw = PlainSigns(raw)
	if !p.OutIsTerminal {
		return p.Printf("%s\n", raw)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return p.Printf("%s\n", escapeHostile(b.Bytes()))
}

func (p *Printer) printYAML(raw json.RawMessage) error {
	node, err := yamlOf(raw)
	if p.OutIsTerminal {
		quoteHostile(node)
	}
	if err != nil {
		return fmt.Errorf("printing YAML: %w", err)
	}
	var b bytes.Buffer
	b.WriteString("---\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return fmt.Errorf("printing YAML: %w", err)
	}
	if p.OutIsTerminal {
		return p.Printf("%s", escapeHostile(b.Bytes()))
	}
	return p.Printf("%s", b.Bytes())
}

// yamlOf returns a JSON document as YAML, with its keys in the same order.
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
		return yamlText(v), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// yamlText quotes what the YAML package would write so that it cannot be read: a text that has line breaks, and blanks
// where a block of lines would need more than indentation; and one that other programs take for something else, as 1e400
// for a number, or yes for true.
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

// quoteHostile puts strings with hostile characters into double quotes, in which YAML allows the same escapes as JSON.
func quoteHostile(node *yaml.Node) {
	if node == nil {
		return
	}
	if node.Kind == yaml.ScalarNode && strings.ContainsFunc(node.Value, isHostile) {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, n := range node.Content {
		quoteHostile(n)
	}
}
