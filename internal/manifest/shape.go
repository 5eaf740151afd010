package manifest

import (
	"reflect"
	"strings"
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

// below returns the path of a field in the value at path.
func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
