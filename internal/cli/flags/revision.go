package flags

import (
	"strconv"

	"github.com/dts-sched/dts/internal/cli/command"
)

// CheckIfMatch refuses a revision that nothing has, as the value of --if-match.
func CheckIfMatch(revision *int) error {
	if revision != nil && *revision < 1 {
		return command.Usagef("--if-match: %d is less than 1", *revision)
	}
	return nil
}

// RevisionTag returns a revision as If-Match takes it, nil for nil.
func RevisionTag(revision *int) *string {
	if revision == nil {
		return nil
	}
	return new(strconv.Quote(strconv.Itoa(*revision)))
}
