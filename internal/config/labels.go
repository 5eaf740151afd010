package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits of the labels of a node. Every node reads those of all others at each heartbeat.
const (
	LabelsLimit = 32 // of one node
	LabelLimit  = 63 // characters of the name or of the value of a label
)

// WeightLabel is the label of a node that says how many turns it gets for one of others.
const (
	WeightLabel = "weight"
	WeightLimit = 1_000_000
)

// ownLabels are what a node says of itself by other settings, so that labels cannot have these names.
var ownLabels = []string{"id", "name", "host", "version", "role"}

// IsOwnLabel reports whether each node has the label of that name by itself.
func IsOwnLabel(name string) bool { return slices.Contains(ownLabels, name) }

var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9._/-]*$`)
)

// Labels say what is particular about a node, by name. A value may be empty.
type Labels map[string]string

// String is the form that Set reads, by name.
func (l Labels) String() string {
	texts := slices.Sorted(maps.Keys(l))
	for i, name := range texts {
		if l[name] != "" {
			texts[i] += "=" + l[name]
		}
	}
	return strings.Join(texts, ",")
}

// Set adds those of a text as zone=eu,gpu=2,spot; no value means an empty one.
func (l *Labels) Set(text string) error {
	all := Labels{}
	maps.Copy(all, *l)
	for _, item := range split(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if _, twice := all[name]; twice {
			return fmt.Errorf("label %q is named twice", name)
		}
		all[name] = value
	}
	if len(all) > 0 {
		*l = all
	}
	return nil
}

// Type is what --help calls the value.
func (l *Labels) Type() string { return "NAME=VALUE,..." }

// Check says what is invalid about the labels: the first one by name, and what would be valid.
func (l Labels) Check() error {
	if len(l) > LabelsLimit {
		return fmt.Errorf("there are %d; must be at most %d", len(l), LabelsLimit)
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if err := checkLabel(name, l[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkLabel(name, value string) error {
	switch {
	case len(name) > LabelLimit || !labelName.MatchString(name):
		return fmt.Errorf("the name %q must be 1 to %d of A-Z a-z 0-9 . _ - / and begin with a letter or a digit",
			name, LabelLimit)
	case IsOwnLabel(name):
		return fmt.Errorf("the name %q is taken: a node has the labels %s by itself",
			name, strings.Join(ownLabels, ", "))
	case len(value) > LabelLimit || !labelValue.MatchString(value):
		return fmt.Errorf("the value %q of %s must be at most %d of A-Z a-z 0-9 . _ - /", value, name, LabelLimit)
	case name == WeightLabel:
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > WeightLimit {
			return fmt.Errorf("the value %q of %s must be a whole number from 1 to %d: how many turns the node gets for one "+
				"of others", value, name, WeightLimit)
		}
	}
	return nil
}

func (l Labels) validate(setting string) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	return nil
}
