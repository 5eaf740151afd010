package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/doctor"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// later creates tasks of one partition that are due in an hour.
func later(t *testing.T, w *storetest.World, p, n int) (refs []task.Ref) {
	t.Helper()
	var defs []task.Definition
	for i := 0; len(refs) < n; i++ {
		if ref := (task.Ref{Namespace: "default", ID: fmt.Sprint("t", i)}); w.PartitionOf(ref) == p {
			refs, defs = append(refs, ref), append(defs, task.Definition{Ref: ref, Type: "http", Delay: time.Hour})
		}
	}
	for some := range slices.Chunk(defs, 500) {
		for _, c := range w.Tasks.Create(w.Ctx, some) {
			testkit.Must(t, c.Err)
		}
	}
	return refs
}

// examineLists is the result of the check of the index of lists, of one partition.
func examineLists(t *testing.T, w *storetest.World, p int, repair bool) doctor.Result {
	t.Helper()
	r := doctor.Request{Checks: []string{"list-index"}, Partition: &p, Repair: repair}
	report, err := newDoctor(w, 0).Examine(w.Ctx, r)
	testkit.Must(t, err)
	return report.Results[0]
}

func packPartition(t *testing.T, w *storetest.World, p int) {
	t.Helper()
	packer := w.Listing.Packer(p, storetest.Fence)
	for more := true; more; {
		var err error
		more, err = packer.Pack(w.Ctx)
		testkit.Must(t, err)
	}
}

func TestExamine_SaysHowFarTheIndexOfListsIs(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const p = 0
	later(t, w, p, 3000)
	for q := 1; q < w.Partitions.Count(); q++ {
		packPartition(t, w, q)
	}
	says := func(severity doctor.Severity, detail string) {
		t.Helper()
		got := examineLists(t, w, p, true)
		if got.Severity != severity || got.Found > 0 || got.Detail != detail {
			t.Errorf("it says %+v, want %s %q", got, severity, detail)
		}
	}
	says(doctor.Note, "lists with a filter lack tasks, as no leader has begun to build the index of lists")
	packer := w.Listing.Packer(p, storetest.Fence)
	for range 2 {
		_, err := packer.Pack(w.Ctx)
		testkit.Must(t, err)
	}
	got := examineLists(t, w, p, false)
	if got.Severity != doctor.Note || !strings.Contains(got.Detail, "% of it is there") {
		t.Errorf("while it is built: %+v", got)
	}
	packPartition(t, w, p)
	says(doctor.OK, "")
}

// It takes as long as doctor waits for a leader that packs.
func TestExamine_FindsALeaderThatDoesNotPack(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	w := storetest.New(t)
	const p, many = 1, 1100
	packPartition(t, w, p)
	later(t, w, p, many)
	got := examineLists(t, w, p, true)
	want := fmt.Sprintf("partition %d has %d tasks that its leader does not pack for lists", p, many)
	if got.Found != 1 || got.Repaired != 0 || !slices.Equal(got.Examples, []string{want}) {
		t.Errorf("it found %+v, want %s", got, want)
	}
	packPartition(t, w, p)
	if got := examineLists(t, w, p, false); got.Severity != doctor.OK || got.Looked < many {
		t.Errorf("after the leader has packed: %+v", got)
	}
}

func TestExamine_ComparesTasksWhileTheyComeAndGo(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	const p = 1
	refs := later(t, w, p, 1500)
	packPartition(t, w, p)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { // as its leader and clients do
		packer := w.Listing.Packer(p, storetest.Fence)
		for i := 0; ; i++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			_, err := w.Tasks.Cancel(w.Ctx, refs[i%len(refs)], "")
			if err == nil && i%50 == 49 {
				_, err = packer.Pack(w.Ctx)
			}
			if err != nil && task.CodeOf(err) != task.CodeFinished {
				ended <- err
				return
			}
		}
	}()
	for range 5 {
		if got := examineLists(t, w, p, false); got.Severity != doctor.OK {
			t.Errorf("it found %+v", got)
		}
	}
	close(stop)
	testkit.Must(t, <-ended)
}
