package expr

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"
)

// output is the value of a step's output.
func output(text string) any {
	if text == "" {
		return nil
	}
	if v, err := decode([]byte(text)); err == nil {
		return v
	}
	return text
}

// decode reads JSON and keeps the digits of numbers.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the JSON")
	}
	return v, nil
}

// value turns what encoding/json decodes, and numbers of Go, into a value of CEL.
func value(v any) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case string:
		return types.String(strings.ToValidUTF8(v, "\uFFFD"))
	case bool:
		return types.Bool(v)
	case json.Number:
		return number(v)
	case int:
		return types.Int(v)
	case int64:
		return types.Int(v)
	case float64:
		return integral(v)
	case []any:
		elements := make([]ref.Val, len(v))
		for i, e := range v {
			elements[i] = value(e)
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements)
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, m := range v {
			members[name] = value(m)
		}
		return types.NewStringInterfaceMap(types.DefaultTypeAdapter, members)
	default:
		return types.NewErr("a value of the Go type %T has no form in JSON", v)
	}
}

// number is an integer if it has no fraction and is one of 64 bits.
func number(n json.Number) ref.Val {
	if i, err := n.Int64(); err == nil {
		return types.Int(i)
	}
	f, err := n.Float64()
	if err != nil {
		return types.NewErr("the number %s is too large", n)
	}
	return integral(f)
}

// exact is the bound below which a double has all integers.
const exact = 1 << 53

func integral(f float64) ref.Val {
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return types.Int(int64(f))
	}
	return types.Double(f)
}

// writer writes values as JSON, up to a limit.
type writer struct {
	dst   []byte
	limit int
}

func (w *writer) check() error {
	if len(w.dst) > w.limit {
		return w.tooLong()
	}
	return nil
}

func (w *writer) tooLong() error {
	return fmt.Errorf("the value is longer than %s as JSON", bytesText(w.limit))
}

func bytesText(n int) string {
	if n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// json writes a value as JSON.
func (w *writer) json(v ref.Val) error {
	switch v := v.(type) {
	case types.Null:
		w.dst = append(w.dst, "null"...)
	case traits.Lister:
		return w.list(v)
	case traits.Mapper:
		return w.object(v)
	case types.Int, types.Uint, types.Double, types.Bool:
		text, err := scalar(v)
		if err != nil {
			return err
		}
		w.dst = append(w.dst, text...)
	default:
		text, err := scalar(v)
		if err != nil {
			return err
		}
		return w.quote(text)
	}
	return w.check()
}

func (w *writer) quote(text string) error {
	if len(text) > w.limit {
		return w.tooLong()
	}
	w.dst, _ = jsontext.AppendQuote(w.dst, text) // its error says that it replaced invalid UTF-8
	return w.check()
}

func (w *writer) list(l traits.Lister) error {
	w.dst = append(w.dst, '[')
	for i, it := 0, l.Iterator(); it.HasNext() == types.True; i++ {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		if err := w.json(it.Next()); err != nil {
			return err
		}
	}
	w.dst = append(w.dst, ']')
	return w.check()
}

func (w *writer) object(m traits.Mapper) error {
	keys := sortedKeys(m)
	w.dst = append(w.dst, '{')
	for i, key := range keys {
		name, ok := key.(types.String)
		if !ok {
			return fmt.Errorf("the names of an object must be texts, and %v is %s", key.Value(), kind(key))
		}
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		if err := w.quote(string(name)); err != nil {
			return err
		}
		w.dst = append(w.dst, ':')
		if err := w.json(m.Get(key)); err != nil {
			return err
		}
	}
	w.dst = append(w.dst, '}')
	return w.check()
}

// sortedKeys are the keys of an object in their order. Keys of different types are in the order of their types.
func sortedKeys(m traits.Mapper) []ref.Val {
	var keys []ref.Val
	for it := m.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		if a.Type() != b.Type() {
			return strings.Compare(a.Type().TypeName(), b.Type().TypeName())
		}
		if c, ok := a.(traits.Comparer); ok {
			if order, ok := c.Compare(b).(types.Int); ok {
				return int(order)
			}
		}
		return 0
	})
	return keys
}

// text is a value as it stands in a text.
func text(v ref.Val, limit int) (string, error) {
	switch v := v.(type) {
	case types.Null:
		return "", errors.New("the value is null, which is no text")
	case traits.Lister, traits.Mapper:
		w := writer{limit: limit}
		if err := w.json(v); err != nil {
			return "", err
		}
		return string(w.dst), nil
	default:
		return scalar(v)
	}
}

// scalar is a value that is neither null nor made of others, as text.
func scalar(v ref.Val) (string, error) {
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Bool:
		return strconv.FormatBool(bool(v)), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), nil
	case types.Double:
		encoded, err := json.Marshal(float64(v))
		if err != nil {
			return "", fmt.Errorf("%v is no number in JSON", float64(v))
		}
		return string(encoded), nil
	case types.Timestamp:
		return moment(v.Time), nil
	case types.Duration:
		return v.Duration.String(), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case *types.Err:
		return "", v
	default:
		return "", fmt.Errorf("a value of type %s has no form in JSON", v.Type().TypeName())
	}
}

// kind is what a value is, for people.
func kind(v ref.Val) string {
	switch v.(type) {
	case types.Null:
		return "null"
	case types.String:
		return "a text"
	case types.Bool:
		return "true or false"
	case types.Int, types.Uint:
		return "an integer"
	case types.Double:
		return "a number"
	case types.Timestamp:
		return "a timestamp"
	case types.Duration:
		return "a duration"
	case traits.Lister:
		return "a list"
	case traits.Mapper:
		return "an object"
	default:
		return v.Type().TypeName()
	}
}
