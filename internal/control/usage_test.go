package control

import (
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestGetMemory_DoesNotGuessForAnEmbeddedRedis(t *testing.T) {
	t.Parallel()
	c := newWorld(t).Control
	known, err := c.GetMemory(t.Context(), me)
	testkit.Must(t, err)
	if known.Unknown != "" || known.Used == 0 {
		t.Errorf("a server of its own: %+v", known)
	}
	c.embedded = true
	unknown, err := c.GetMemory(t.Context(), me)
	testkit.Must(t, err)
	if unknown.Unknown == "" || unknown.Used != 0 || len(unknown.Kinds) != 0 {
		t.Errorf("embedded: %+v", unknown)
	}
}
