package definition

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
)

// ParsePreference reads what people type: a selector, with its weight and a colon before it unless that is 1. The
// selector is checked later. Error: what is wrong with the text.
func ParsePreference(text string) (wire.Preference, error) {
	number, selector, weighted := strings.Cut(text, ":")
	if !weighted {
		number, selector = "1", text
	}
	weight, err := strconv.Atoi(strings.TrimSpace(number))
	selector = strings.TrimSpace(selector)
	if err != nil || selector == "" {
		return wire.Preference{}, fmt.Errorf("%q must be WEIGHT:SELECTOR, as 10:zone=eu, or a selector alone", text)
	}
	return wire.Preference{Select: selector, Weight: &weight}, nil
}

// PreferenceText writes what ParsePreference reads.
func PreferenceText(p wire.Preference) string {
	weight := 1
	if p.Weight != nil {
		weight = *p.Weight
	}
	return fmt.Sprintf("%d:%s", weight, p.Select)
}
