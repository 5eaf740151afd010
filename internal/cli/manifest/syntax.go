package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// documents passes the documents of a file to take. After one that is no YAML, it goes on with the next "---": nothing
// in a document can begin a line like that. It returns the faults.
func documents(src source, take func(*yaml.Node)) (faults Faults) {
	text, above := src.text, 0 // what has not been read, and how many lines are above it
	for {
		last, err := decodeAll(text, above, take)
		if err == nil {
			return faults
		}
		f := syntaxFault(src.name, text, last, err)
		skipped := nextMarker(text, max(f.Line, last+1, 2))
		f.Line += above
		faults = append(faults, f)
		if skipped < 0 || len(faults) == yamlFaults {
			return faults
		}
		above += bytes.Count(text[:skipped], []byte("\n"))
		text = text[skipped:]
	}
}

// decodeAll passes documents to take until the end, or an error. It adds the lines above to their places. last is the
// line of the text in which the last one of these begins, 0 if there is none.
func decodeAll(text []byte, above int, take func(*yaml.Node)) (last int, _ error) {
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return last, nil
		case err != nil:
			return last, err
		}
		last = doc.Content[0].Line
		if above > 0 {
			moveDown(&doc, above)
		}
		take(doc.Content[0])
	}
}

// moveDown adds lines to the places of a node and of all in it.
func moveDown(n *yaml.Node, lines int) {
	n.Line += lines
	for _, inner := range n.Content {
		moveDown(inner, lines)
	}
}

// placeOf returns the place of a word at or below a line; it is in the text.
func placeOf(text []byte, from int, word string) (line, column int) {
	for l := range bytes.Lines(text) {
		line++
		if column = bytes.Index(l, []byte(word)) + 1; column > 0 && line >= from {
			return line, column
		}
	}
	return max(1, from), 0
}

// nextMarker returns where the first line at or below a line begins that begins with "---", -1 if there is none.
func nextMarker(text []byte, line int) int {
	at := 0
	for n := 1; at < len(text); n++ {
		if n >= line && bytes.HasPrefix(text[at:], []byte("---")) {
			return at
		}
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	return -1
}

var yamlErrorPrefix = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlAdvice says what to do about errors of the YAML package that contain the key.
var yamlAdvice = map[string]string{
	"did not find expected alphabetic or numeric character": quotes("* or &", "cron: '* * * * *'"),
	"mapping keys are not allowed":                          quotes("?", "cron: '? * * * *'"),
	"block sequence entries are not allowed":                quotes("-", "note: '- none -'"),
	"unknown anchor":                                        quotes("*", "cron: '* * * * *'"),
	"found character that cannot start any token": quotes("@, % or `", "cron: '@daily'") +
		"; lines are indented by blanks",
}

// quotes says that a text with a sign needs quotes.
func quotes(sign, example string) string {
	return fmt.Sprintf("a text that begins with %s needs quotes, as in %s", sign, example)
}

var unknownAnchor = regexp.MustCompile(`unknown anchor '(.+)' referenced`)

// syntaxFault returns the fault of an error of the YAML package, which names no column. Only that of an unknown anchor
// has no line: it is at the first alias of that name from a line on.
func syntaxFault(file string, text []byte, from int, err error) Fault {
	prefix := yamlErrorPrefix.FindStringSubmatch(err.Error())
	f := Fault{File: file, Line: 1, Text: "is not YAML: " + err.Error()}
	if prefix != nil {
		f.Text = "is not YAML: " + strings.TrimPrefix(err.Error(), prefix[0])
		f.Line, _ = strconv.Atoi(cmp.Or(prefix[1], "1"))
	}
	if name := unknownAnchor.FindStringSubmatch(f.Text); name != nil && prefix[1] == "" {
		f.Line, f.Column = placeOf(text, from, "*"+name[1])
	}
	for part, advice := range yamlAdvice {
		if strings.Contains(f.Text, part) {
			f.Text += ": " + advice
		}
	}
	return f
}
