package printer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/manifest"
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

// ShowFile prints a file: as JSON in that format, else as YAML.
func (p *Printer) ShowFile(raw json.RawMessage) error {
	if p.Format == JSON {
		return p.printJSON(raw)
	}
	return p.printYAML(raw)
}

// printJSON breaks the lines for a terminal only.
func (p *Printer) printJSON(raw json.RawMessage) error {
	raw = wire.PlainSigns(raw)
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
	node, err := manifest.YAML(raw)
	if p.OutIsTerminal {
		quoteHostile(node)
	}
	if err != nil {
		return fmt.Errorf("printing YAML: %w", err)
	}
	text, err := manifest.Text(node)
	if err != nil {
		return fmt.Errorf("printing YAML: %w", err)
	}
	if p.OutIsTerminal {
		return p.Printf("%s", escapeHostile([]byte(text)))
	}
	return p.Printf("%s", text)
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
