package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is something wrong with a file.
type Fault struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`   // from 1; 0: it is about the file as a whole
	Column int    `json:"column,omitempty"` // from 1; 0: it is not known
	Field  string `json:"field,omitempty"`  // as in schedules[0].task.type
	Text   string `json:"text"`
}

// Place returns "file:line:column", as far as these are known.
func (f Fault) Place() string {
	switch {
	case f.Line == 0:
		return f.File
	case f.Column == 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// Message returns the text, with the field in front of it.
func (f Fault) Message() string {
	if f.Field == "" {
		return f.Text
	}
	return f.Field + ": " + f.Text
}

// Faults is the error for files that cannot be applied. It has all that is wrong with any of them.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Place() + ": " + fault.Message()
	}
	return strings.Join(lines, "\n")
}

// InOrder sorts faults by their files, the one that comes first before the others, and then by their places.
func (f Faults) InOrder() Faults {
	files := make(map[string]int)
	for _, fault := range f {
		if _, ok := files[fault.File]; !ok {
			files[fault.File] = len(files)
		}
	}
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(files[a.File], files[b.File]), a.compare(b))
	})
	return f
}

// compare compares the places of two faults of one file.
func (f Fault) compare(other Fault) int {
	return cmp.Or(cmp.Compare(f.Line, other.Line), cmp.Compare(f.Column, other.Column))
}
