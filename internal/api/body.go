package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// bind reads the body, which fits the document already, into v.
func bind(c echo.Context, v any) error {
	raw, ok := c.Get(bodyKey).([]byte)
	if !ok {
		return fmt.Errorf("%s %s has no body in the document", c.Request().Method, c.Path())
	}
	return decode(raw, v)
}

// decode names the field of a number that fits the document but no Go integer, such as 1e2, and of a time that there is
// not, such as a 30 February.
func decode(raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		if wrong.Type == reflect.TypeFor[wire.Time]() {
			return task.Invalid(wrong.Field, "%s is not a time such as 2026-01-02T15:04:05Z", wrong.Value)
		}
		if digits, is := strings.CutPrefix(wrong.Value, "number "); is && wrong.Type.Kind() != reflect.Float64 {
			const text = "%s must be a whole number of at most 18 digits, written without an exponent"
			return task.Invalid(wrong.Field, text, digits)
		}
		return task.Invalid(wrong.Field, "%s is not what is expected here", wrong.Value)
	}
	return task.Errorf(task.CodeInvalid, "the body cannot be read: %v", err)
}
