package task

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestTypes_TimeoutIsTheDefinitionsOrTheTypesOrTheDefault(t *testing.T) {
	known := Types{"short": {Timeout: time.Second}, "plain": {}}
	for _, c := range []struct {
		definition Definition
		want       time.Duration
	}{
		{Definition{Type: "short"}, time.Second},
		{Definition{Type: "short", Timeout: time.Hour}, time.Hour},
		{Definition{Type: "plain"}, DefaultTimeout},
		{Definition{Type: "unknown"}, DefaultTimeout},
		{Definition{Type: "unknown", Timeout: time.Minute}, time.Minute},
	} {
		if got := known.Timeout(c.definition); got != c.want {
			t.Errorf("%s with timeout %s: %s, want %s", c.definition.Type, c.definition.Timeout, got, c.want)
		}
		if c.definition.Timeout > 0 {
			continue
		}
		if got := Types(nil).Timeout(c.definition); got != DefaultTimeout {
			t.Errorf("%s on a node that knows no types: %s, want %s", c.definition.Type, got, DefaultTimeout)
		}
	}
}

func TestTypes_CheckPayloadAsksTheTypeAlone(t *testing.T) {
	refused := errors.New("refused")
	known := Types{"strict": {CheckPayload: func(context.Context, json.RawMessage) error { return refused }}, "plain": {}}
	for name, want := range map[string]error{"strict": refused, "plain": nil, "unknown": nil} {
		if err := known.CheckPayload(t.Context(), name, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
