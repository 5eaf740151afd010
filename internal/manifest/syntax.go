package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// documents passes the documents of a file to take. After one that is no YAML, it goes on with the next "---": nothing
// in a document can begin a line like that. It returns the faults.
func documents(src Source, take func(*yaml.Node)) (faults Faults) {
	text, above := src.Text, 0 // what has not been read, and how many lines are above it
	for {
		last, err := decodeAll(text, above, take)
		if err == nil {
			return faults
		}
		f := syntaxFault(src.Name, text, last, err)
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
	startToken:                                              quotes("@, % or `", "cron: '@daily'"),
}

// startToken is the error of the YAML package for a sign that begins nothing, a tab among them.
const startToken = "found character that cannot start any token"

// tabAdvice is for a tab where a line is indented.
const tabAdvice = "it is indented with a tab: YAML is indented with spaces"

// quotes says that a text with a sign needs quotes.
func quotes(sign, example string) string {
	return fmt.Sprintf("a text that begins with %s needs quotes, as in %s", sign, example)
}

var unknownAnchor = regexp.MustCompile(`unknown anchor '(.+)' referenced`)

// exactBytes is up to how many bytes of a text the place of an error is searched.
const exactBytes = 1 << 20

// syntaxFault returns the fault of an error of the YAML package, which names no column, and as the line often that of
// what it was reading. An unknown anchor is at the first alias of that name from a line on.
func syntaxFault(file string, text []byte, from int, err error) Fault {
	if f, ok := jsonFault(file, text); ok {
		return f
	}
	prefix := yamlErrorPrefix.FindStringSubmatch(err.Error())
	f := Fault{File: file, Line: 1, Text: "is not YAML: " + err.Error()}
	if prefix != nil {
		f.Text = "is not YAML: " + strings.TrimPrefix(err.Error(), prefix[0])
		f.Line, _ = strconv.Atoi(cmp.Or(prefix[1], "1"))
	}
	if name := unknownAnchor.FindStringSubmatch(f.Text); name != nil && prefix[1] == "" {
		f.Line, f.Column = placeOf(text, from, "*"+name[1])
	}
	if f.Column == 0 && len(text) <= exactBytes {
		f.Line, f.Column = exactPlace(text, f.Line, err)
	}
	if line, isTab := tabbed(text, f.Line); isTab {
		f.Line, f.Column, f.Text = line, 1, f.Text+": "+tabAdvice
		return f
	}
	for part, advice := range yamlAdvice {
		if strings.Contains(f.Text, part) {
			f.Text += ": " + advice
		}
	}
	return f
}

// tabbed returns the line at or next to the one with an error that has a tab in its indentation.
func tabbed(text []byte, at int) (line int, is bool) {
	n := 0
	for l := range bytes.Lines(text) {
		n++
		indent := l[:len(l)-len(bytes.TrimLeft(l, " \t"))]
		if n >= at-1 && n <= at+1 && bytes.ContainsRune(indent, '\t') {
			return n, true
		}
	}
	return 0, false
}

// exactPlace returns where an error of the YAML package comes about: at the end of the shortest text that leads to it.
// Whole lines are tried first, from a line on, as the middle of a line can look like another error.
func exactPlace(text []byte, from int, err error) (line, column int) {
	message := func(err error) string { return yamlErrorPrefix.ReplaceAllString(err.Error(), "") }
	fails := func(end int) bool {
		_, failed := decodeAll(text[:end], 0, func(*yaml.Node) {})
		return failed != nil && message(failed) == message(err)
	}
	ends := []int{0} // of the lines
	for l := range bytes.Lines(text) {
		ends = append(ends, ends[len(ends)-1]+len(l))
	}
	first := min(max(1, from), len(ends)-1)
	line = first + sort.Search(len(ends)-1-first, func(i int) bool { return fails(ends[first+i]) })
	start := ends[line-1]
	before := sort.Search(max(0, ends[line]-start-1), func(i int) bool { return fails(start + i + 1) })
	return line, 1 + utf8.RuneCount(text[start:start+before])
}

// jsonStart is how a file begins that is meant to be JSON.
var jsonStart = regexp.MustCompile(`^\s*\{\s*["}]`)

// jsonFault returns what is wrong with a text that is meant to be JSON, and is not.
func jsonFault(file string, text []byte) (Fault, bool) {
	var wrong *json.SyntaxError
	var value json.RawMessage
	if !jsonStart.Match(text) || !errors.As(json.Unmarshal(text, &value), &wrong) {
		return Fault{}, false
	}
	above := text[:max(0, min(int(wrong.Offset), len(text))-1)]
	line, start := bytes.Count(above, []byte("\n")), bytes.LastIndexByte(above, '\n')+1
	return Fault{
		File: file, Line: 1 + line, Column: 1 + utf8.RuneCount(above[start:]), Text: "is not JSON: " + wrong.Error(),
	}, true
}
