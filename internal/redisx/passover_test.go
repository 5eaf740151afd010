package redisx_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// Who reads what there is does not wait for a silent server.
func TestPassingOver_AsksNoServerInAnOutage(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.NoFailover())
	db := redistest.Open(t, c.URL())
	const lost = "lost"
	silent, kept := c.Primary(lost), ""
	for i := 0; kept == "" || c.Primary(kept) == silent; i++ {
		kept = fmt.Sprint("kept", i)
	}
	for _, key := range []string{lost, kept} {
		testkit.Must(t, db.Set(t.Context(), key, "1", 0).Err())
	}
	ctx := redisx.PassingOver(t.Context())
	if n, err := db.CountExisting(ctx, []string{lost, kept}); n != 2 || err != nil || len(db.Link().Away()) > 0 {
		t.Errorf("of 2 keys, %d exist: %v, away are %v", n, err, db.Link().Away())
	}

	silent.Pause()
	t.Cleanup(silent.Continue)
	hurried, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	testkit.Eventually(t, "the outage is noticed", func() bool {
		return db.Get(hurried, lost).Err() != nil && len(db.Link().Away()) == 1
	})
	if away := db.Link().Away()[0]; away.Address != silent.Addr() || away.Since.IsZero() || away.Said != "" {
		t.Errorf("%+v is away, want %s", away, silent.Addr())
	}
	if n, err := db.CountExisting(ctx, []string{lost, kept}); n != 1 || err != nil {
		t.Errorf("of 1 key that can be read, %d exist: %v", n, err)
	}
	if err := db.Get(ctx, lost).Err(); !redisx.IsPassedOver(err) {
		t.Errorf("a silent server was asked: %v", err)
	}
	silent.Continue()
	testkit.Eventually(t, "it answers again", func() bool {
		return db.Get(t.Context(), lost).Err() == nil && len(db.Link().Away()) == 0
	})
	if n, err := db.CountExisting(ctx, []string{lost, kept}); n != 2 || err != nil {
		t.Errorf("of 2 keys, %d exist again: %v", n, err)
	}
}
