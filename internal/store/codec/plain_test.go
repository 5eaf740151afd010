package codec

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// FuzzEncodeDefinition_WritesAsPackageJSONDoes compares the short way with the long one, which defines the form.
func FuzzEncodeDefinition_WritesAsPackageJSONDoes(f *testing.F) {
	f.Add("http", "default", "", "", "", int64(0), int64(0), 0)
	f.Add("http", "", "", "", "", int64(1), int64(0), 1)
	f.Add("mail", "slow", "tenant-7", "tenant-7,api-x", "ada@example.com", int64(1_700_000_000_123), int64(90_061_001), 5)
	f.Add("http", "", "", "a<b", "", int64(1), int64(0), 1)
	f.Add("m", "q", "k", "", `ada "the <first>" \& \u2028 é`, int64(-1), int64(-1500), -3)
	f.Add("\x00\x7f", "\xff", "é", "<", "\n", int64(1)<<62, int64(1)<<62, 1<<40)
	f.Fuzz(func(t *testing.T, taskType, queue, fairKey, limitKey, owner string, at, span int64, n int) {
		d := task.Definition{
			Type: taskType, Queue: queue, FairKey: fairKey, LimitKey: limitKey, Owner: owner, Priority: n, FairWeight: n / 2,
			Cost:  n / 3,
			Delay: time.Duration(span), Timeout: time.Duration(span), Retention: time.Duration(span) / 3,
			StartBy: time.Duration(span) * 7, Retry: task.Retry{MaxAttempts: n, MaxElapsed: time.Duration(span) * 5},
			Payload: json.RawMessage(`{"a":1}`),
		}
		if at != 0 {
			d.RunAt = FromMS(at)
		}
		_, short := appendPlainHead(nil, &d)
		if plain := isPlain(taskType + queue + fairKey + limitKey + owner); short != plain {
			t.Errorf("it takes the short way: %v, want %v", short, plain)
		}
		line, err := json.Marshal(headOf(d))
		if err != nil {
			t.Fatal(err)
		}
		want := string(line) + "\n" + string(d.Payload)
		if got, err := EncodeDefinition(d); err != nil || got != want {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
	})
}

// A field that is added to definitions is not forgotten by the short way.
func TestEncodeDefinition_WritesEachFieldAsPackageJSONDoes(t *testing.T) {
	t.Parallel()
	aside := []string{"Ref", "Payload", "Trace"} // which are not in the head
	var compare func(d *task.Definition, name string, field reflect.Value)
	compare = func(d *task.Definition, name string, field reflect.Value) {
		before := reflect.New(field.Type()).Elem()
		before.Set(field)
		switch field.Interface().(type) {
		case task.Retry, task.Backoff:
			for i := range field.NumField() {
				compare(d, name+"."+field.Type().Field(i).Name, field.Field(i))
			}
			return
		case time.Time:
			field.Set(reflect.ValueOf(FromMS(1_700_000_000_123)))
		default:
			fill(t, name, field)
		}
		line, err := json.Marshal(headOf(*d))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := EncodeDefinition(*d); err != nil || got != string(line)+"\n" {
			t.Errorf("with %s: got %q, %v, want %q", name, got, err, line)
		}
		field.Set(before)
	}
	d := &task.Definition{Type: "http", Queue: "slow"}
	fields := reflect.ValueOf(d).Elem()
	for i := range fields.NumField() {
		if name := fields.Type().Field(i).Name; !slices.Contains(aside, name) {
			compare(d, name, fields.Field(i))
		}
	}
}

// fill sets a field to a value that is not its default.
func fill(t *testing.T, name string, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.String:
		field.SetString("x")
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int, reflect.Int64:
		field.SetInt(int64(time.Second))
	case reflect.Float64:
		field.SetFloat(1.5)
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Slice:
		if field.Type().Elem().Kind() == reflect.Uint8 { // JSON
			field.Set(reflect.ValueOf([]byte("{}")).Convert(field.Type()))
			return
		}
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
	default:
		t.Fatalf("%s has a %s, which this test cannot set", name, field.Kind())
	}
}
