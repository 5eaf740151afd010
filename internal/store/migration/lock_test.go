package migration

import (
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

func TestLock_IsKeptAndReleasedByItsHolderOnly(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	keys := lua.NewKeyspace("", 0)
	key := string(keys.Conversion())
	m := &migration{Options: Options{DB: db, Keys: keys}, id: "me"}
	l, holder, err := m.acquire(t.Context())
	if err != nil || holder != "" {
		t.Fatalf("acquire: held by %q, %v", holder, err)
	}
	left := func() time.Duration { return db.PTTL(t.Context(), key).Val() }
	testkit.Must(t, db.PExpire(t.Context(), key, time.Second).Err())
	testkit.Must(t, l.keep(t.Context()))
	if left() > time.Second {
		t.Error("keep extends a lock that was just taken")
	}
	l.extended = l.extended.Add(-extendAfter)
	testkit.Must(t, l.keep(t.Context()))
	if left() < lockTTL/2 {
		t.Errorf("after keep it expires in %s", left())
	}

	testkit.Must(t, db.Set(t.Context(), key, "other", 0).Err())
	if _, holder, err := m.acquire(t.Context()); err != nil || holder != "other" {
		t.Errorf("acquire: held by %q, %v", holder, err)
	}
	l.extended = l.extended.Add(-extendAfter)
	if err := l.keep(t.Context()); !errors.Is(err, errTakenOver) {
		t.Errorf("keep: %v", err)
	}
	l.release(t.Context())
	if db.Get(t.Context(), key).Val() != "other" {
		t.Error("release has deleted the lock of another node")
	}
	testkit.Must(t, db.Set(t.Context(), key, "me", 0).Err())
	l.release(t.Context())
	if db.Exists(t.Context(), key).Val() != 0 {
		t.Error("release has not deleted its lock")
	}
}
