package task

import (
	"slices"
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
