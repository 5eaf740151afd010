package printer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/testkit"
)

// evil has what a terminal obeys: each kind of bidirectional control, C1, escape sequences, and separators of lines.
const evil = "a\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c" +
	"\u0080\u009b2J\x1b[31m\x1b]0;t\x07\r\x7f\u2028\u2029z"

// obeyed are the hostile characters of a text, but for line breaks and the colours that dtsctl prints itself.
func obeyed(text string) (found []rune) {
	for _, r := range ownColour.ReplaceAllString(text, "") {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || strings.ContainsRune(evil, r) && r > unicode.MaxLatin1) {
			found = append(found, r)
		}
	}
	return found
}

// printAll prints a text of others in every way, and returns the results and the messages.
func printAll(t *testing.T, terminal bool, text string) (string, string) {
	t.Helper()
	var out, messages bytes.Buffer
	p := New(Options{Out: &out, Err: &messages, OutIsTerminal: terminal, ErrIsTerminal: terminal, Colour: true})
	columns := []Column[string]{
		{Name: "name", Value: func(v string) any { return v }},
		{Name: "state", Value: func(v string) any { return Status(v) }},
	}
	testkit.Must(t, PrintTable(p, columns, []string{text}))
	testkit.Must(t, p.PrintDetails([]Detail{{"note", Remark(text)}, {"queues", List{text}}}))
	testkit.Must(t, p.Printf("%s is %s\n", text, p.StatusText("failed", text)))
	p.Errorf("%s", text)
	p.Warn([]string{text})
	return out.String(), messages.String()
}

func TestPrinter_ShowsATerminalNothingToObey(t *testing.T) {
	out, messages := printAll(t, true, evil+"\x9b raw")
	if found := obeyed(out + messages); len(found) > 0 {
		t.Errorf("a terminal gets %q in:\n%q\n%q", found, out, messages)
	}
	if strings.Count(out, "z") != 6 || !strings.Contains(out, Red) {
		t.Errorf("the texts or the colours are missing in %q", out)
	}
}

func TestPrinter_GivesAPipeWhatOthersWrote(t *testing.T) {
	const text = "a\u202eb\u200f"
	out, messages := printAll(t, false, text)
	if strings.Count(out, text) != 6 || strings.Count(messages, text) != 2 {
		t.Errorf("a pipe gets %q and %q", out, messages)
	}
}

func TestShow_EscapesForATerminalAndMeansTheSame(t *testing.T) {
	raw, err := json.Marshal(map[string]any{"name": evil, "list": []string{evil, "plain"}})
	testkit.Must(t, err)
	raw = bytes.ReplaceAll(raw, []byte(`\u2028`), []byte("\u2028")) // as other servers write it
	for name, c := range map[string]struct {
		format Format
		line   bool
		read   func([]byte, any) error
	}{
		"json":         {JSON, false, json.Unmarshal},
		"json, a line": {JSON, true, json.Unmarshal},
		"yaml":         {YAML, false, yaml.Unmarshal},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := New(Options{Out: &out, OutIsTerminal: true})
			p.Format = c.format
			show := p.Show
			if c.line {
				show = p.ShowLine
			}
			testkit.Must(t, show(raw, nil))
			if found := obeyed(out.String()); len(found) > 0 {
				t.Errorf("a terminal gets %q in:\n%q", found, out.String())
			}
			var got, want any
			testkit.Must(t, c.read(out.Bytes(), &got))
			testkit.Must(t, json.Unmarshal(raw, &want))
			if normal(t, got) != normal(t, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// normal returns v as JSON, in which all numbers have one type.
func normal(t *testing.T, v any) string {
	t.Helper()
	var again any
	testkit.Must(t, json.Unmarshal([]byte(jsonOf(t, v)), &again))
	return jsonOf(t, again)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	testkit.Must(t, err)
	return string(raw)
}
