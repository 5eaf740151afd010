package executor

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

func TestABadPayloadIsRefusedWithItsField(t *testing.T) {
	for _, c := range []struct{ taskType, payload, field string }{
		{"http", `{"url":"http://example.com/"}`, ""},
		{"http", `{}`, "payload.url"},
		{"http", `{"url":"ftp://example.com/"}`, "payload.url"},
		{"http", `{"url":"http://example.com/","metod":"GET"}`, "payload.metod"},
		{"shell", `{"command":["true"]}`, ""},
		{"shell", `{"command":[]}`, "payload.command"},
		{"shell", `[]`, "payload"},
		{"somebody-else's", `[]`, ""},
	} {
		err := Types().CheckPayload(c.taskType, json.RawMessage(c.payload))
		var bad *task.Error
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s %s: %v", c.taskType, c.payload, err)
		case c.field != "" && (!errors.As(err, &bad) || bad.Code != task.CodeInvalid || bad.Field != c.field):
			t.Errorf("%s %s: %v, want field %s", c.taskType, c.payload, err, c.field)
		}
	}
}
