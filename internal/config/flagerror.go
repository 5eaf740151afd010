package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// FlagError adds to an error of flags.Parse what would be right.
func FlagError(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		return fmt.Errorf("%w%s", err, DidYouMean("--"+unknown.GetSpecifiedName(), names))
	case errors.As(err, &invalid):
		return wrongValue("--"+invalid.GetFlag().Name, invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap())
	}
	return err
}

// wrongValue is the error for a text that a flag, or a setting elsewhere, does not take. It says what would be right.
func wrongValue(place string, f *pflag.Flag, text string, err error) error {
	right := rightValue(f.Value.Type(), err)
	if !strings.HasPrefix(right, "must ") {
		right = "is wrong: " + right
	}
	return fmt.Errorf("%s: %q %s", place, text, right)
}

// rightValue says what a flag of that type takes. For all other types, the error of the flag says that.
func rightValue(kind string, err error) string {
	switch {
	case strings.HasPrefix(kind, "duration"):
		return "must be a duration with its unit, as in 30s, 1h30m or 48h"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "must be a whole number"
	case kind == "bool":
		return "must be true or false"
	}
	return err.Error()
}
