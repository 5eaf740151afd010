package executor

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// Types describes the types that this package runs to those who handle their tasks without running them.
func Types() task.Types {
	return task.Types{
		"http":  {Timeout: 30 * time.Second, CheckPayload: refusing(parseCall)},
		"shell": {Timeout: 10 * time.Minute, CheckPayload: refusing(parseCommand)},
	}
}

// refusing makes a check of a parser: a submission with an invalid payload is refused with CodeInvalid and the field.
func refusing[T any](parse func(json.RawMessage) (T, error)) func(json.RawMessage) error {
	return func(payload json.RawMessage) error {
		_, err := parse(payload)
		var invalid *InvalidPayloadError
		if errors.As(err, &invalid) {
			return task.Invalid(invalid.Field, "%s", invalid.Message)
		}
		return err
	}
}
