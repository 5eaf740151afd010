package executor

import (
	"encoding/json"
	"errors"

	"github.com/dts-sched/dts/internal/task"
)

// CheckPayload says what is wrong with the payload of a new task, so that whoever submits it hears of it before
// any attempt is made. Types that this package does not run are not looked into. Error: *task.Error of CodeInvalid
// that names the field.
func CheckPayload(taskType string, payload json.RawMessage) error {
	var err error
	switch taskType {
	case "http":
		_, err = parseCall(payload)
	case "shell":
		_, err = parseCommand(payload)
	}
	var invalid *InvalidPayloadError
	if errors.As(err, &invalid) {
		return task.Invalid(invalid.Field, "%s", invalid.Message)
	}
	return err
}
