package task

import (
	"strings"
	"time"
)

// FormatDuration writes 10m0s as 10m, as people do.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParseDuration reads a duration; "" is 0. Error: CodeInvalid, with the field.
func ParseDuration(field, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, Invalid(field, "%q is not a duration such as 1m30s or 48h", s)
	}
	return d, nil
}

// ParseSpan reads a duration for which 0 stands for the default, so that nobody can ask for it. Error: CodeInvalid,
// with the field.
func ParseSpan(field, s string) (time.Duration, error) {
	d, err := ParseDuration(field, s)
	if err == nil && s != "" && d == 0 {
		err = Invalid(field, "must be more than 0")
	}
	return d, err
}
