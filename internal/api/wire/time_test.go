package wire_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
)

func TestTime_AlwaysHasThreeDecimals(t *testing.T) {
	east := time.FixedZone("east", 2*60*60)
	for in, want := range map[time.Time]string{
		time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC):           `"2026-01-02T15:04:05.000Z"`,
		time.Date(2026, 1, 2, 15, 4, 5, 250_000_000, east):     `"2026-01-02T13:04:05.250Z"`,
		time.Date(2026, 1, 2, 15, 4, 5, 999_999_999, time.UTC): `"2026-01-02T15:04:05.999Z"`,
	} {
		text, err := json.Marshal(wire.Time{Time: in})
		if err != nil || string(text) != want {
			t.Errorf("%v: %s, %v, want %s", in, text, err, want)
		}
		var back wire.Time
		if err := json.Unmarshal(text, &back); err != nil || !back.Equal(in.Truncate(time.Millisecond)) {
			t.Errorf("%s reads back as %v, %v", text, back, err)
		}
	}
	if text, err := json.Marshal(wire.At(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))); err == nil {
		t.Errorf("wrote a year of five digits: %s", text)
	}
}

func TestTime_NamesTheFieldThatHasNone(t *testing.T) {
	var s wire.Submission
	var wrong *json.UnmarshalTypeError
	err := json.Unmarshal([]byte(`{"type":"noop","run_at":"2026-02-30T00:00:00Z"}`), &s)
	if !errors.As(err, &wrong) || wrong.Field != "run_at" || wrong.Value != `"2026-02-30T00:00:00Z"` {
		t.Errorf("got %v", err)
	}
}
