package layout

import (
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// Nobody may take the loss of shared keys for that of all data, nor leases that are new for data that is there.
func TestCheck_GoesByTheMarksOfThePartitions(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	a, b := serving(t, db), serving(t, db)
	checked(t, a, known)
	testkit.Must(t, a.Mark(t.Context()))
	data := metaOf(t, db)["data"]
	for p := range 15 { // and then all but the last one
		testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
		if f := checked(t, b, forgotten); f.Lost || len(f.Missing) != 4 || metaOf(t, db)["data"] != data {
			t.Fatalf("without dts:meta and %d marks: %+v", p, f)
		}
		testkit.Must(t, db.Del(t.Context(), string(a.Keys.Partition(p).Mark())).Err())
	}

	testkit.Must(t, db.FlushAll(t.Context()).Err())
	leave(t, db, 16, 10) // as leaders, and workers that restore their tasks, do at once
	if f := checked(t, a, forgotten); !f.Lost {
		t.Errorf("all is gone: %+v", f)
	}
	testkit.Must(t, a.Mark(t.Context()))
	if f := checked(t, b, forgotten); !f.Lost || len(f.Missing) > 0 {
		t.Errorf("all is gone, as the other node says: %+v", f)
	}
	testkit.Must(t, db.Del(t.Context(), "dts:meta").Err())
	if f := checked(t, b, forgotten); f.Lost {
		t.Errorf("dts:meta of the new data is gone: %+v", f)
	}
}

// The marks of one server prove that the data is there, whatever another server has.
func TestCheck_NeedsNoServerButThoseOfAMarkAndOfMeta(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.NoFailover())
	l := serving(t, redistest.Open(t, c.URL()))
	checked(t, l, known)
	away := c.Primary(string(l.Keys.Partition(1).Mark()))
	away.Kill()
	if err := l.Mark(t.Context()); err == nil {
		t.Error("all is marked, though a server is away")
	}
	data := metaOf(t, l.DB)["data"]
	for p := range 16 {
		key := string(l.Keys.Partition(p).Mark())
		if s := c.Primary(key); s != away && s.Admin().Get(t.Context(), key).Val() != data {
			t.Errorf("partition %d is not marked", p)
		}
	}
	testkit.Must(t, l.DB.Del(t.Context(), "dts:meta").Err())
	if f := checked(t, l, forgotten); f.Lost || len(f.Missing) != 4 || metaOf(t, l.DB)["data"] != data {
		t.Errorf("without dts:meta and one server: %+v", f)
	}
}

// Redis may lose everything between a check and the marks that follow it: the next check must find no mark.
func TestMark_HidesNoLossOfAllData(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	l := serving(t, db)
	testkit.Must(t, l.Mark(t.Context()))
	testkit.Must(t, db.FlushAll(t.Context()).Err())
	testkit.Must(t, l.Mark(t.Context()))
	if f := checked(t, l, forgotten); !f.Lost {
		t.Errorf("all is gone: %+v", f)
	}
}

func TestMark_WritesAgainWhatIsGone(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	l := serving(t, db)
	testkit.Must(t, l.Mark(t.Context()))
	for _, p := range []int{0, 7, 15} { // as Redis evicts them
		testkit.Must(t, db.Del(t.Context(), string(l.Keys.Partition(p).Mark())).Err())
	}
	testkit.Must(t, l.Mark(t.Context()))
	data := metaOf(t, db)["data"]
	for p := range 16 {
		if mark := db.Get(t.Context(), string(l.Keys.Partition(p).Mark())).Val(); mark != data {
			t.Errorf("the mark of partition %d is %q, want %q", p, mark, data)
		}
	}
}

func TestMark_WritesWhatIsMissingOrDamaged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	db := server.DB(t)
	key := string(serving(t, db).Keys.Partition(3).Mark())
	testkit.Must(t, db.RPush(t.Context(), key, "garbage").Err())
	l := serving(t, db)
	testkit.Must(t, server.Admin().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	if err := l.Mark(t.Context()); err == nil { // it is tried again
		t.Error("all is marked, though Redis takes no writes")
	}
	testkit.Must(t, server.Admin().ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	testkit.Must(t, l.Mark(t.Context()))
	for p := range 16 {
		mark := db.Get(t.Context(), string(l.Keys.Partition(p).Mark())).Val()
		if mark != metaOf(t, db)["data"] {
			t.Errorf("the mark of partition %d is %q", p, mark)
		}
	}
}

// A client goes on while the only node is started again without dts:meta: nothing is lost.
func TestOpen_SettlesTheDataThatTheMarksSay(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	client := serving(t, db)
	testkit.Must(t, client.Mark(t.Context()))
	data := metaOf(t, db)["data"]
	for name, remove := range map[string]func() error{
		"the key":   func() error { return db.Del(t.Context(), "dts:meta").Err() },
		"the field": func() error { return db.HDel(t.Context(), "dts:meta", "data").Err() },
	} {
		testkit.Must(t, remove())
		l, err := Open(t.Context(), Options{DB: db})
		testkit.Must(t, err)
		if is := metaOf(t, db)["data"]; is != data || l.Partitions() != 16 || checked(t, client, forgotten).Lost {
			t.Errorf("%s was gone: %d partitions, the data was %q, is %q", name, l.Partitions(), data, is)
		}
	}
}
