package task

import (
	"slices"
	"strconv"
	"strings"
)

// What limit_key can hold.
const (
	LimitKeysLimit = 3   // keys
	LimitKeyLimit  = 100 // characters of each key
)

// LimitKeys returns the keys under which limits count the task, in the order in which they were given; nil for none.
func (d Definition) LimitKeys() []string {
	if d.LimitKey == "" {
		return nil
	}
	return strings.Split(d.LimitKey, ",")
}

// CostLimit is the greatest cost.
const CostLimit = 100

// ValidateCost checks how many slots a task needs of each limit; 0 is the default, 1. Error: CodeInvalid.
func ValidateCost(n int) error {
	if n < 0 || n > CostLimit {
		return Invalid("cost", "%d must be 1 to %d", n, CostLimit)
	}
	return nil
}

// JoinLimits writes the limits of a task, from narrow to wide, and its cost, as they are in the name of its lane and in
// its state: "key:a,all", "5,key:a,all"; "" for no limits.
func JoinLimits(limits []string, cost int) string {
	text := strings.Join(limits, ",")
	if cost > 1 && text != "" {
		text = strconv.Itoa(cost) + "," + text
	}
	return text
}

// SplitLimits reads what JoinLimits writes. The cost is 1 if the text does not begin with one.
func SplitLimits(text string) (limits []string, cost int) {
	if text == "" {
		return nil, 1
	}
	limits = strings.Split(text, ",")
	if n, err := strconv.Atoi(limits[0]); err == nil { // a limit begins with a letter
		return limits[1:], n
	}
	return limits, 1
}

// ValidateLimitKey checks the keys under which limits count a task; "" is none. Error: CodeInvalid.
func ValidateLimitKey(text string) error {
	if n := strings.Count(text, ",") + 1; n > LimitKeysLimit {
		return Invalid("limit_key", "has %d keys, at most %d are allowed", n, LimitKeysLimit)
	}
	keys := Definition{LimitKey: text}.LimitKeys()
	for i, key := range keys {
		switch {
		case len(key) > LimitKeyLimit:
			const wrong = "key %d is %d characters long, at most %d are allowed"
			return Invalid("limit_key", wrong, i+1, len(key), LimitKeyLimit)
		case !isName(key):
			const wrong = "%q must be 1 to %d characters of %s; give keys as in tenant-7,api-x"
			return Invalid("limit_key", wrong, key, LimitKeyLimit, nameAlphabet)
		case slices.Contains(keys[:i], key):
			return Invalid("limit_key", "has %q twice: name each key once", key)
		}
	}
	return nil
}
