package listing_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/index"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/store/listing"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/store/tasks"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// packers are those of all partitions of a world.
func packers(w *storetest.World) (all []*listing.Packer) {
	for p := range w.Layout.Partitions() {
		all = append(all, w.Listing.Packer(p, storetest.Fence))
	}
	return all
}

// packAll packs until there is nothing more to do.
func packAll(t *testing.T, w *storetest.World, packers []*listing.Packer) {
	t.Helper()
	for _, p := range packers {
		for more := true; more; {
			var err error
			more, err = p.Pack(w.Ctx, false)
			testkit.Must(t, err)
		}
	}
}

// listAll reads all pages of a list, and returns the names.
func listAll(t *testing.T, w *storetest.World, f tasks.Filter, limit int) (names []string) {
	t.Helper()
	for cursor := ""; ; {
		page, err := w.Listing.List(w.Ctx, f, limit, cursor)
		testkit.Must(t, err)
		if page.Missing != "" {
			t.Errorf("%+v: missing are %s", f, page.Missing)
		}
		if len(page.Tasks) > limit {
			t.Errorf("%+v: a page of %d has %d tasks", f, limit, len(page.Tasks))
		}
		for _, listed := range page.Tasks {
			names = append(names, listed.Ref.String())
		}
		if cursor = page.NextCursor; cursor == "" {
			return names
		}
	}
}

// fleet is tasks in a store, which a test brings into all states.
type fleet struct {
	*storetest.World
	t      *testing.T
	random *rand.Rand
	refs   []task.Ref
}

func (f *fleet) pick(texts ...string) string { return texts[f.random.IntN(len(texts))] }

// create creates a task that is due at once, or later.
func (f *fleet) create() task.Ref {
	d := task.Definition{
		Ref:  task.Ref{Namespace: f.pick("default", "team-a"), ID: fmt.Sprintf("order-%d", len(f.refs))},
		Type: f.pick("http", "shell"), Queue: f.pick("default", "low"), Owner: f.pick("", "ops"),
		Retry: task.Retry{MaxAttempts: 1 + f.random.IntN(2)},
	}
	if f.random.IntN(2) == 0 {
		d.Labels = map[string]string{"app": f.pick("x", "y"), "order": fmt.Sprint(len(f.refs))}
	}
	if f.random.IntN(3) == 0 {
		d.Delay = time.Hour + time.Duration(f.random.IntN(1000))*time.Second
	}
	created := f.Tasks.Create(f.Ctx, []task.Definition{d})[0]
	testkit.Must(f.t, created.Err)
	f.refs = append(f.refs, d.Ref)
	return d.Ref
}

// step does something with a task.
func (f *fleet) step() {
	ref := f.create()
	switch f.random.IntN(8) {
	case 0, 1: // it waits
	case 2:
		f.Claim(ref)
	case 3:
		_, _ = f.Tasks.Cancel(f.Ctx, ref, "")
	case 4:
		before := f.Get(ref)
		if before.State == task.Scheduled {
			testkit.Must(f.t, f.Requeue(before.Definition, "moved", 0))
		}
	default:
		f.run(ref)
	}
}

// run runs a task that is due, so that it fails, succeeds, or waits for its next attempt.
func (f *fleet) run(ref task.Ref) {
	f.Claim(ref)
	claimed := f.Get(ref)
	if claimed.State != task.Queued {
		return
	}
	run, err := f.Tasks.Begin(f.Ctx, ref, claimed.Attempt, f.pick("n1", "n2")+"#1")
	testkit.Must(f.t, err)
	reason := f.pick("order 17 not found", "HTTP 503")
	switch {
	case f.random.IntN(2) == 0:
		testkit.Must(f.t, run.Finish(f.Ctx, task.Succeeded, task.OutcomeSucceeded, "done", ""))
	case claimed.MaxAttempts > 1 && f.random.IntN(2) == 0:
		err := run.Reattempt(f.Ctx, time.Hour, task.OutcomeFailed, reason)
		testkit.Must(f.t, err)
	default:
		testkit.Must(f.t, run.Finish(f.Ctx, task.Failed, task.OutcomeFailed, "", reason))
		if f.random.IntN(3) == 0 {
			_, err := f.Tasks.Retry(f.Ctx, ref)
			testkit.Must(f.t, err)
		}
	}
}

// want is what a list must show.
func (f *fleet) want(filter tasks.Filter) (names []string) {
	found, err := f.Tasks.GetEach(f.Ctx, f.refs)
	testkit.Must(f.t, err)
	var rows []index.Row
	for _, t := range found {
		cause := ""
		if t.State == task.Failed {
			cause = rollup.Shape(t.Error)
		}
		if r := index.NewRow(t, cause); f.indexFilter(filter).Matches(r) {
			rows = append(rows, r)
		}
	}
	for _, r := range filter.Sort.Best(rows, 0) {
		names = append(names, r.Ref.String())
	}
	return names
}

func (f *fleet) indexFilter(filter tasks.Filter) index.Filter {
	ms := func(s tasks.Span) index.Range {
		var r index.Range
		if !s.Since.IsZero() {
			r.From = s.Since.UnixMilli()
		}
		if !s.Until.IsZero() {
			r.Until = s.Until.UnixMilli()
		}
		return r
	}
	wanted := index.Filter{
		States: filter.States, Queue: filter.Queue, Type: filter.Type, Owner: filter.Owner, Node: filter.Node,
		Cause: filter.Error, Labels: index.Labels(filter.Labels), Created: ms(filter.Created), Due: ms(filter.Due),
		Ended: ms(filter.Ended),
	}
	if filter.Namespace != "*" {
		wanted.Namespace = filter.Namespace
	}
	return wanted
}

func (f *fleet) filter() tasks.Filter {
	filter := tasks.Filter{
		Namespace: f.pick("*", "default"), Queue: f.pick("", "", "low", "moved"), Type: f.pick("", "http"),
		Owner: f.pick("", "", "ops"), Node: f.pick("", "", "", "n1"), Error: f.pick("", "", "", "http", "ORDER #"),
		Sort: index.Order{By: index.By(f.random.IntN(5)), Asc: f.random.IntN(2) == 0},
	}
	if f.random.IntN(3) == 0 {
		filter.Labels = map[string]string{"app": "x"}
	}
	if f.random.IntN(3) == 0 {
		filter.States = []task.State{task.State(f.pick("scheduled", "failed", "running", "queued"))}
	}
	for _, s := range []*tasks.Span{&filter.Created, &filter.Due, &filter.Ended} {
		if f.random.IntN(6) == 0 {
			s.Since = time.Now().Add(-time.Duration(f.random.IntN(3000)) * time.Millisecond)
		}
		if f.random.IntN(6) == 0 {
			s.Until = time.Now().Add(time.Duration(f.random.IntN(5000)-2000) * time.Second)
		}
	}
	if reflect.DeepEqual(filter, tasks.Filter{Namespace: filter.Namespace, States: filter.States}) {
		filter.Type = "http" // a list without a filter sorts queued tasks by when the leader looks after them
	}
	return filter
}

func TestList_ShowsWhatTheFilterMatchesInEachStateOfTheIndex(t *testing.T) {
	t.Parallel()
	w := storetest.On(t, redistest.Start(t).DB(t))
	seed := rand.Uint64()
	f := &fleet{World: w, t: t, random: rand.New(rand.NewPCG(seed, 1))}
	for range 60 { // before there is an index
		f.step()
	}
	all := packers(w)
	packAll(t, w, all)
	for range 12 {
		for range 20 {
			f.step()
		}
		if f.random.IntN(2) == 0 {
			packAll(t, w, all)
		}
		for range 12 {
			filter := f.filter()
			got, want := listAll(t, w, filter, 1+f.random.IntN(40)), f.want(filter)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: %+v (-want +got):\n%s", seed, filter, diff)
			}
		}
	}
}

func TestList_SaysHowFarTheIndexIsBuilt(t *testing.T) {
	t.Parallel()
	w := storetest.On(t, redistest.Start(t).DB(t))
	var defs []task.Definition
	for i := range 6000 {
		defs = append(defs, task.Definition{
			Ref: task.Ref{ID: fmt.Sprint("t", i)}, Type: "http", Delay: time.Hour, Labels: map[string]string{"app": "x"},
		})
	}
	for some := range slices.Chunk(defs, 500) {
		for _, c := range w.Tasks.Create(w.Ctx, some) {
			testkit.Must(t, c.Err)
		}
	}
	filter := tasks.Filter{Namespace: "default", Labels: map[string]string{"app": "x"}}
	page, err := w.Listing.List(w.Ctx, filter, 10, "")
	testkit.Must(t, err)
	if page.Missing == "" {
		t.Error("a list without an index does not say what it lacks")
	}
	all := packers(w)
	for range 3 {
		for _, p := range all {
			_, err := p.Pack(w.Ctx, false)
			testkit.Must(t, err)
		}
	}
	if page, err = w.Listing.List(w.Ctx, filter, 10, ""); err != nil || len(page.Tasks) != 10 || page.Missing == "" {
		t.Errorf("while the index is built: %d tasks, missing %q, %v", len(page.Tasks), page.Missing, err)
	}
	packAll(t, w, all)
	if got := listAll(t, w, filter, 500); len(got) != len(defs) {
		t.Errorf("%d of %d tasks are listed", len(got), len(defs))
	}
	for _, p := range all { // a node of an earlier release comes
		_, err := p.Pack(w.Ctx, true)
		testkit.Must(t, err)
	}
	page, err = w.Listing.List(w.Ctx, filter, 10, "")
	if err != nil || !strings.Contains(page.Missing, "earlier release") {
		t.Errorf("beside a node of an earlier release: missing %q, %v", page.Missing, err)
	}
	packAll(t, w, all)
	if got := listAll(t, w, filter, 500); len(got) != len(defs) {
		t.Errorf("%d of %d tasks are listed when it has gone", len(got), len(defs))
	}
}
