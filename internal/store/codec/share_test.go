package codec

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Tasks whose heads are equal share what was decoded once, so nothing in it may be what one of them could change.
func TestDecodeHead_SharesNothingThatCanChange(t *testing.T) {
	t.Parallel()
	paths := references(t, reflect.TypeFor[task.Definition](), nil)
	if len(paths) < 5 {
		t.Fatalf("a definition has the references %v, so this test finds too few", paths)
	}
	for _, path := range paths {
		name := strings.Join(path, ".")
		d := task.Definition{Type: "http", Queue: task.DefaultQueue}
		fill(t, name, reach(reflect.ValueOf(&d).Elem(), path))
		def, err := EncodeDefinition(d)
		testkit.Must(t, err)
		head, _, _ := strings.Cut(def, "\n")
		first, err := DecodeHead(d.Ref, []byte(head))
		testkit.Must(t, err)
		second, err := DecodeHead(d.Ref, []byte(head))
		testkit.Must(t, err)
		third, err := DecodeHead(d.Ref, []byte(head))
		testkit.Must(t, err)
		if !strings.HasSuffix(name, "Payload") && reach(reflect.ValueOf(&first).Elem(), path).IsZero() {
			t.Errorf("%s is not in the decoded head, so nothing is tested", name)
		}
		for _, pair := range [][2]task.Definition{{first, second}, {second, third}} {
			if shares(reflect.ValueOf(pair[0]), reflect.ValueOf(pair[1])) {
				t.Errorf("two tasks with %s share what one of them may change", name)
			}
		}
	}
}

// references returns the paths of all fields of a type that refer to something. It looks into what pointers refer to,
// but for types that it came through.
func references(t *testing.T, of reflect.Type, through []reflect.Type) (paths [][]string) {
	t.Helper()
	through = append(slices.Clone(through), of)
	for _, f := range reflect.VisibleFields(of) {
		inner := f.Type
		switch {
		case f.Anonymous || len(f.Index) > 1 || inner == reflect.TypeFor[time.Time]():
			continue
		case slices.Contains([]reflect.Kind{reflect.Interface, reflect.Chan, reflect.Func}, inner.Kind()):
			t.Fatalf("this test does not know what to do with %s of %v", f.Name, of)
		case slices.Contains([]reflect.Kind{reflect.Map, reflect.Slice, reflect.Pointer}, inner.Kind()):
			paths = append(paths, []string{f.Name})
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct || slices.Contains(through, inner) {
			continue
		}
		for _, path := range references(t, inner, through) {
			paths = append(paths, append([]string{f.Name}, path...))
		}
	}
	return paths
}

// reach returns a field of a value; it makes what pointers on the way lack.
func reach(v reflect.Value, path []string) reflect.Value {
	for _, name := range path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.FieldByName(name)
	}
	return v
}

// shares reports whether two values refer to the same thing.
func shares(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Map, reflect.Slice:
		return !a.IsNil() && a.Pointer() == b.Pointer()
	case reflect.Pointer:
		return !a.IsNil() && (a.Pointer() == b.Pointer() || shares(a.Elem(), b.Elem()))
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type() != reflect.TypeFor[time.Time]() && shares(a.Field(i), b.Field(i)) {
				return true
			}
		}
	}
	return false
}
