package apply

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/config"
)

// shapeField is a field of a struct, as JSON sees it.
type shapeField struct {
	shape    reflect.Type
	required bool
}

// fieldsOf returns the fields of a struct and of those embedded in it, by their names in JSON.
func fieldsOf(shape reflect.Type) map[string]shapeField {
	fields := make(map[string]shapeField)
	for f := range shape.Fields() {
		if f.Anonymous {
			for name, inner := range fieldsOf(f.Type) {
				if _, outer := fields[name]; !outer {
					fields[name] = inner
				}
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = shapeField{f.Type, !strings.Contains(options, "omitempty")}
	}
	return fields
}

// suggestion names the field that an unknown key may have been meant to be.
func suggestion(key string, known map[string]shapeField) string {
	if name := config.Nearest(strings.ToLower(key), slices.Sorted(maps.Keys(known))); name != "" {
		return fmt.Sprintf("; did you mean %s?", name)
	}
	return ""
}

// below returns the path of a field in the value at path.
func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
