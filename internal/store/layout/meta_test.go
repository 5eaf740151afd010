package layout

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// known and forgotten are the answers of a node that Redis knows, and of a node that it does not know.
func known(context.Context) (bool, error)     { return false, nil }
func forgotten(context.Context) (bool, error) { return true, nil }

// checked is what a node finds.
func checked(t *testing.T, l *Layout, answer func(context.Context) (bool, error)) Finding {
	t.Helper()
	f, err := l.Check(t.Context(), answer)
	testkit.Must(t, err)
	return f
}

// metaOf is what dts:meta has.
func metaOf(t *testing.T, db *redisx.DB) map[string]string {
	t.Helper()
	fields, err := db.HGetAll(t.Context(), "dts:meta").Result()
	testkit.Must(t, err)
	return fields
}

func TestCheck_TellsLostDataFromALostMeta(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a, b := serving(t, db), serving(t, db)
	before := metaOf(t, db)
	for _, l := range []*Layout{a, b} {
		if f := checked(t, l, forgotten); f.Lost || len(f.Missing) > 0 {
			t.Errorf("all is there: %+v", f)
		}
	}

	testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
	if f := checked(t, a, known); f.Lost || !slices.Equal(f.Missing, []string{"partitions", "layout", "secret", "data"}) {
		t.Errorf("dts:meta alone is gone: %+v", f)
	}
	if f := checked(t, b, known); f.Lost || len(f.Missing) > 0 {
		t.Errorf("another node has written it: %+v", f)
	}
	if after := metaOf(t, db); !maps.Equal(before, after) {
		t.Errorf("it was %v, is %v", before, after)
	}

	testkit.Must(t, db.FlushAll(t.Context()).Err())
	if f := checked(t, a, forgotten); !f.Lost {
		t.Errorf("all is gone: %+v", f)
	}
	if f := checked(t, b, known); !f.Lost || len(f.Missing) > 0 {
		t.Errorf("all is gone, as another node says: %+v", f)
	}
	after := metaOf(t, db)
	if after["secret"] != before["secret"] || after["data"] == before["data"] {
		t.Errorf("after the loss %v, before %v", after, before)
	}
	if f := checked(t, b, known); f.Lost {
		t.Error("one loss is found twice")
	}
}

func TestCheck_NoticesAnotherInstallation(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	l := serving(t, db)
	testkit.Must(t, db.FlushAll(t.Context()).Err())
	serving(t, db)
	if f := checked(t, l, known); !f.Lost {
		t.Errorf("%+v, though the data is that of an installation that was begun anew", f)
	}
}

func TestCheck_WritesAFieldThatIsGone(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	l := serving(t, db)
	before := metaOf(t, db)
	for _, field := range []string{"partitions", "layout", "secret", "data"} {
		testkit.Must(t, db.HDel(t.Context(), "dts:meta", field).Err())
		if f := checked(t, l, known); f.Lost || !slices.Equal(f.Missing, []string{field}) {
			t.Errorf("%s is gone: %+v", field, f)
		}
	}
	if after := metaOf(t, db); !maps.Equal(before, after) {
		t.Errorf("it was %v, is %v", before, after)
	}
}

// A node that cannot say yet whether Redis knows it must not settle anything.
func TestCheck_WritesNothingBeforeItKnows(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	l := serving(t, db)
	testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
	away := errors.New("no heartbeat")
	if _, err := l.Check(t.Context(), func(context.Context) (bool, error) { return false, away }); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
	if db.Exists(t.Context(), "dts:meta").Val() != 0 {
		t.Error("it has written dts:meta")
	}
}

func TestOpen_SettlesTheIdOfDataOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	release(t, db)
	a := serving(t, db)
	data := metaOf(t, db)["data"]
	if data == "" {
		t.Error("it has none")
	}
	if b := serving(t, db); metaOf(t, db)["data"] != data || checked(t, a, known).Lost || checked(t, b, known).Lost {
		t.Errorf("it was %q, and is %q", data, metaOf(t, db)["data"])
	}
}
