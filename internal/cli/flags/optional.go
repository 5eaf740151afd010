// Package flags reads what the flags say that several commands share.
package flags

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/cli/command"
)

// optional is a flag whose target stays nil until the flag is given. It is a pflag.Value.
type optional[T any] struct {
	target **T
	parse  func(string) (T, error)
	kind   string
}

func (o *optional[T]) Set(text string) error {
	v, err := o.parse(text)
	if err != nil {
		return err
	}
	*o.target = &v
	return nil
}

func (o *optional[T]) String() string {
	if o.target == nil || *o.target == nil {
		return ""
	}
	return fmt.Sprint(**o.target)
}

func (o *optional[T]) Type() string { return o.kind }

// String adds a flag that leaves target nil unless it is given.
func String(f *pflag.FlagSet, target **string, name, usage string) {
	StringP(f, target, name, "", usage)
}

// StringP is like String with a one-letter form.
func StringP(f *pflag.FlagSet, target **string, name, short, usage string) {
	f.VarP(&optional[string]{target, func(text string) (string, error) { return text, nil }, "string"}, name, short, usage)
}

// Int adds a flag that leaves target nil unless it is given.
func Int(f *pflag.FlagSet, target **int, name, usage string) {
	f.Var(&optional[int]{target, parseInt, "int"}, name, usage)
}

// parseInt reads what pflag's own int flags read, 0x10 included.
func parseInt(text string) (int, error) {
	n, err := strconv.ParseInt(text, 0, strconv.IntSize)
	return int(n), err
}

// Bool adds a flag that leaves target nil unless it is given. Without a value it means true.
func Bool(f *pflag.FlagSet, target **bool, name, usage string) {
	f.VarPF(&optional[bool]{target, strconv.ParseBool, "bool"}, name, "", usage).NoOptDefVal = "true"
}

// Duration adds a flag that leaves target nil unless it is given.
func Duration(f *pflag.FlagSet, target **time.Duration, name, usage string) {
	f.Var(&optional[time.Duration]{target, time.ParseDuration, "duration"}, name, usage)
}

// DurationOr is Duration for a flag that may be given without a value, and means that then.
func DurationOr(f *pflag.FlagSet, target **time.Duration, name string, alone time.Duration, usage string) {
	f.VarPF(&optional[time.Duration]{target, time.ParseDuration, "duration"}, name, "", usage).NoOptDefVal = alone.String()
}

// DurationText returns a duration as the API takes it.
func DurationText(d *time.Duration) *string {
	if d == nil {
		return nil
	}
	text := d.String()
	return &text
}

// CheckDurations refuses negative durations in any of the flags that were given.
func CheckDurations(f *pflag.FlagSet) (err error) {
	f.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Value.Type(), "duration") && strings.Contains(f.Value.String(), "-") {
			err = command.Usagef("--%s: %s is negative", f.Name, strings.Trim(f.Value.String(), "[]"))
		}
	})
	return err
}

// NilIfZero returns a pointer to v, or nil if v is the zero value.
func NilIfZero[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// Pairs reads texts of the form NAME=VALUE, with "=" replaced by separator. It returns nil if there are none.
func Pairs(flag, separator string, texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	pairs := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, separator)
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, command.Usagef("%s: %q must be NAME%sVALUE", flag, text, separator)
		}
		pairs[name] = value
	}
	return pairs, nil
}
