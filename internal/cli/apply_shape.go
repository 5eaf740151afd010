package cli

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/config"
)

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// part is a field of a struct, as JSON sees it.
type part struct {
	shape    reflect.Type
	required bool
}

// partsOf are the fields of a struct and of those embedded in it, by their names in JSON.
func partsOf(shape reflect.Type) map[string]part {
	parts := make(map[string]part)
	for f := range shape.Fields() {
		if f.Anonymous {
			for name, inner := range partsOf(f.Type) {
				if _, outer := parts[name]; !outer {
					parts[name] = inner
				}
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		parts[name] = part{f.Type, !strings.Contains(options, "omitempty")}
	}
	return parts
}

// nearest suggests what a key may have been meant to be.
func nearest(key string, known map[string]part) string {
	if name := config.Nearest(strings.ToLower(key), slices.Sorted(maps.Keys(known))); name != "" {
		return fmt.Sprintf("; did you mean %s?", name)
	}
	return ""
}
