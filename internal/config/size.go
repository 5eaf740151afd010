package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written with a unit: 512MiB. As a flag, it is a pflag.Value; 0 is "".
type Size int64

// units are from the smallest to the largest, each 1,024 times the one before it.
var units = []string{"KiB", "MiB", "GiB", "TiB"}

// ParseSize reads 512MiB.
func ParseSize(text string) (Size, error) {
	factor := int64(1)
	for _, unit := range units {
		factor <<= 10
		number, ok := strings.CutSuffix(text, unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64/factor {
			break
		}
		return Size(n * factor), nil
	}
	return 0, fmt.Errorf("%q is no size, such as 512MiB: a whole number and one of %s", text, strings.Join(units, ", "))
}

// String is the form that Set reads, in the largest unit of which it is a whole number.
func (s Size) String() string {
	if s == 0 {
		return ""
	}
	n, unit := int64(s), "B"
	for _, larger := range units {
		if n%1024 != 0 {
			break
		}
		n, unit = n/1024, larger
	}
	return strconv.FormatInt(n, 10) + unit
}

// Set reads 512MiB; "" is no limit.
func (s *Size) Set(text string) (err error) {
	*s = 0
	if text != "" {
		*s, err = ParseSize(text)
	}
	return err
}

// Type is what --help calls the value.
func (s *Size) Type() string { return "SIZE" }
