package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/api/wire/wiretest"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// TestSaidOf_ReturnsWhatWasSent sends definitions of every combination of fields through the translation and
// back: what was said, in the form that answers use, is what comes back, and nothing else.
func TestSaidOf_ReturnsWhatWasSent(t *testing.T) {
	schema := definitionSchema(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		said := wiretest.Definition(random)
		raw, err := json.Marshal(said)
		testkit.Must(t, err)
		d, err := scheduleFrom(schema, raw)
		testkit.Must(t, err)
		if diff := cmp.Diff(said, definition.WireSchedule(d)); diff != "" {
			t.Fatalf("%s (-said +answered):\n%s", raw, diff)
		}
	}
}

// FuzzScheduleDefinition sends any body through the check and the translation: each is either refused with a code
// other than internal, or becomes a definition that answers, sent back in, become again.
func FuzzScheduleDefinition(f *testing.F) {
	schema := definitionSchema(f)
	for _, seed := range []string{
		hourly, everything, `{"cron":"H H(0-3) * * *","task":{"type":"http"}}`, `{"specs":[{"every":"1e3s"}],"task":{}}`, `[]`, ``,
		`{"every":"99999999999999h","task":{"type":"http"}}`, `{"cron":"@every -1h","misfire":{"max":1e1},"task":{"type":"x","payload":null}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := scheduleFrom(schema, raw)
		var refusal *task.Error
		switch {
		case errors.As(err, &refusal) && edge.ProblemFor(contextOf("127.0.0.1"), err).Status < 500:
			return
		case err != nil:
			t.Fatalf("%q: %v", raw, err)
		}
		d = d.Normalize()
		if d.Validate() != nil {
			return
		}
		again, err := json.Marshal(definition.WireSchedule(d))
		testkit.Must(t, err)
		back, err := scheduleFrom(schema, again)
		if err != nil {
			t.Fatalf("%s came back as %s: %v", raw, again, err)
		}
		if back = back.Normalize(); !reflect.DeepEqual(d, back) && !cmp.Equal(d, back) {
			t.Errorf("%s came back as %s (-want +got):\n%s", raw, again, cmp.Diff(d, back))
		}
	})
}

func definitionSchema(t testing.TB) *openapi3.Schema {
	t.Helper()
	doc, err := Document()
	testkit.Must(t, err)
	return doc.Components.Schemas["ScheduleDefinition"].Value
}

func scheduleFrom(schema *openapi3.Schema, raw []byte) (schedule.Definition, error) {
	if err := checkBody(schema, raw); err != nil {
		return schedule.Definition{}, err
	}
	var in wire.ScheduleDefinition
	if err := decode(raw, &in); err != nil {
		return schedule.Definition{}, err
	}
	return definition.Schedule(in, "a")
}

func TestFormatOffset_WritesOffsetsAsZonesDo(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"+00:00": 0, "+05:30": 5*time.Hour + 30*time.Minute, "-03:30": -(3*time.Hour + 30*time.Minute), "+14:00": 14 * time.Hour,
		"-00:44:30": -(44*time.Minute + 30*time.Second),
	} {
		if got := formatOffset(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestMatchOf_ReadsTheRevision(t *testing.T) {
	for tag, want := range map[string]string{``: "0 false", `*`: "0 true", `"3"`: "3 false", `W/"12"`: "12 false"} {
		revision, anyone := matchOf(tag)
		if got := fmt.Sprint(revision, anyone); got != want {
			t.Errorf("%s: %s, want %s", tag, got, want)
		}
	}
}
