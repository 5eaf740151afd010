package cli

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
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
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if apart(strings.ToLower(key), name) <= max(1, len(name)/4) {
			return fmt.Sprintf("; did you mean %s?", name)
		}
	}
	return ""
}

// apart is how many letters must be changed, added or taken out to make a of b (Levenshtein's distance).
func apart(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
