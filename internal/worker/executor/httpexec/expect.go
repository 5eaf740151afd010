package httpexec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"

	"github.com/ohler55/ojg/jp"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

const (
	expectLimit = 1 << 20  // bytes of an answer that are read to look for what is expected
	pathLimit   = 200      // bytes of a JSON path
	equalsLimit = 16 << 10 // bytes of what the value at a path must be

	// valuesLimit is how many values an answer may have that is decoded to look at a path. One takes about valueCost bytes.
	valuesLimit = 200_000
	valueCost   = 200
)

// expect says what the body of a successful answer must be like: {contains?, matches?, json?: {path, equals}}. All conditions must hold.
type expect struct {
	contains string
	matches  pattern // "" for no condition
	path     string  // "" for no condition
	at       jp.Expr // of the path
	equals   any     // what one of the values at path must be, as encoding/json decodes it
}

// parseExpect reads the payload's expect. Error: *executor.InvalidPayloadError.
func parseExpect(raw json.RawMessage) (*expect, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil, nil //nolint:nilnil // nothing is expected
	}
	var at json.RawMessage
	e := &expect{}
	err := executor.DecodeField("expect", raw, map[string]executor.Field{
		"contains": {Into: &e.contains, Want: "a string"},
		"matches":  {Into: (*string)(&e.matches), Want: "a string"},
		"json":     {Into: &at, Want: "an object"},
	})
	if err != nil {
		return nil, err
	}
	if err := e.matches.validate("expect.matches"); err != nil {
		return nil, err
	}
	if at != nil && string(at) != "null" {
		if err := e.parsePath(at); err != nil {
			return nil, err
		}
	}
	if e.contains == "" && e.matches == "" && e.path == "" {
		return nil, executor.Invalid("expect", "is empty: give contains, matches or json")
	}
	return e, nil
}

func (e *expect) parsePath(raw json.RawMessage) error {
	var equals json.RawMessage
	err := executor.DecodeField("expect.json", raw, map[string]executor.Field{
		"path": {Into: &e.path, Want: "a string"}, "equals": {Into: &equals, Want: "JSON"},
	})
	switch {
	case err != nil:
		return err
	case len(e.path) > pathLimit: // before it is parsed: a filter in it may have a regular expression
		return executor.Invalid("expect.json.path", "is %d bytes long, at most %d are allowed", len(e.path), pathLimit)
	case !strings.HasPrefix(e.path, "$"):
		return executor.Invalid("expect.json.path", "%q must be a JSON path, such as $.status", e.path)
	case equals == nil:
		return executor.Invalid("expect.json.equals", "is missing: what the value at path must be")
	case len(equals) > equalsLimit:
		return executor.Invalid("expect.json.equals", "is %d bytes long, at most %d are allowed", len(equals), equalsLimit)
	}
	if e.at, err = jp.ParseString(e.path); err != nil {
		return executor.Invalid("expect.json.path", "%q is not a JSON path: %v", e.path, err)
	}
	for _, step := range e.at {
		switch step.(type) {
		case jp.Root, jp.Child, jp.Nth, jp.Wildcard:
		default: // those can take time and memory beyond any bound
			return executor.Invalid("expect.json.path", "%q may have names, numbers and * only, as in $.items[*].state", e.path)
		}
	}
	e.equals, err = decodeJSON(equals)
	return err
}

// limit is how many bytes of an answer are read.
func (e *expect) limit() int64 {
	if e == nil {
		return task.ResultLimit + 1
	}
	return expectLimit + 1
}

// checkAnswer is check for an answer. If that is in an encoding that nobody asked for, the error names it.
func (e *expect) checkAnswer(ctx context.Context, header http.Header, body string) error {
	err := e.check(ctx, body)
	encoding := header.Get("Content-Encoding") // net/http removes the one that it has decoded
	if err == nil || ctx.Err() != nil || encoding == "" || strings.EqualFold(encoding, "identity") {
		return err
	}
	return fmt.Errorf("%w: it is in the encoding %q, which is not decoded", err, task.Cut(encoding, encodingLimit))
}

// encodingLimit is how many bytes of the name of an encoding are quoted.
const encodingLimit = 50

// check returns an error that says which condition does not hold for the body of an answer, or the cause of ctx if that
// ends meanwhile.
func (e *expect) check(ctx context.Context, body string) error {
	switch {
	case e == nil:
		return nil
	case len(body) > expectLimit:
		return fmt.Errorf("the answer is longer than %d bytes, which are read for payload.expect", expectLimit)
	case !strings.Contains(body, e.contains):
		return fmt.Errorf("the answer does not contain %q", e.contains)
	}
	if matches, err := e.matches.match(ctx, body); err != nil || !matches {
		return cmp.Or(err, fmt.Errorf("the answer does not match %q", e.matches))
	}
	if e.path == "" {
		return nil
	}
	n := countValues(body)
	switch {
	case n > valuesLimit && !json.Valid([]byte(body)):
		return errNotJSON
	case n > valuesLimit:
		return fmt.Errorf("the answer has about %d values, at most %d are read for payload.expect.json", n, valuesLimit)
	}
	return executor.Decode(ctx, n*valueCost, func() error { return e.checkPath(body) })
}

func (e *expect) checkPath(body string) error {
	value, err := decodeJSON([]byte(body))
	if err != nil {
		return errNotJSON
	}
	found := e.at.Get(value)
	for _, v := range found {
		if reflect.DeepEqual(v, e.equals) {
			return nil
		}
	}
	want, _ := json.Marshal(e.equals)
	if len(found) == 0 {
		return fmt.Errorf("the answer has nothing at %s, want %s", e.path, want)
	}
	got, _ := json.Marshal(found[0])
	return fmt.Errorf("the answer has %s at %s, want %s", task.Cut(string(got), excerptLimit), e.path, want)
}

var errNotJSON = errors.New("the answer is not JSON")

// countValues estimates how many values there are in JSON, without decoding it.
func countValues(text string) int {
	n, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// decodeJSON decodes JSON so that equal numbers are equal values: integers as int64, whatever their form.
func decodeJSON(raw []byte) (any, error) {
	var value any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is more than one document")
	}
	return withNumbers(value), nil
}

// withNumbers replaces the numbers in a value.
func withNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		return numberOf(v)
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withNumbers(v[name])
		}
	}
	return value
}

func numberOf(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	switch {
	case err != nil: // it is out of range
		return n.String()
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return int64(f)
	}
	return f
}
