package manifest

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/api/wire/wiretest"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/testkit"
)

// What is written of a definition is read as the same one.
func TestDocumentOf_IsReadAsTheSameDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		want, err := definition.Schedule(wiretest.Definition(random), "a")
		testkit.Must(t, err)
		want = want.Normalize()
		d, err := DocumentOf(want, true)
		testkit.Must(t, err)
		text, err := d.Text()
		testkit.Must(t, err)
		m, err := Read([]Source{{"f", []byte(text)}}, nil, Namespaces{Fallback: "default"})
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		got, paused, err := m.Schedules[0].Definition()
		testkit.Must(t, err)
		got = got.Normalize()
		changes, err := Differences(want, got)
		if err != nil || len(changes) > 0 || got.Ref != want.Ref || paused == nil || !*paused {
			t.Fatalf("%v, %v, %v: paused %v: %s\n%s", err, changes, got.Ref, paused, text, cmp.Diff(want, got))
		}
	}
}
