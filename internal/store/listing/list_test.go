package listing_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

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
func packers(w *storetest.World) []*listing.Packer { return packersOf(w, w.Layout.Partitions()) }

// packersOf are those of the first partitions.
func packersOf(w *storetest.World, n int) (all []*listing.Packer) {
	for p := range n {
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
			more, err = p.Pack(w.Ctx)
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
		Causes: causes(filter.Error), Labels: index.Labels(filter.Labels), Created: ms(filter.Created), Due: ms(filter.Due),
		OnlyEnded: filter.Sort.By == index.Ended || filter.Sort.By == index.Took,
		Ended:     ms(filter.Ended),
	}
	if filter.Namespace != "*" {
		wanted.Namespace = filter.Namespace
	}
	return wanted
}

func causes(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
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

// counted says how a page with counts differs from what a list must show; "" for not at all.
func (f *fleet) counted(filter tasks.Filter, limit int, want []string) string {
	page, counts, err := f.Listing.ListAndCount(f.Ctx, filter, limit, "")
	testkit.Must(f.t, err)
	for i, listed := range page.Tasks {
		if i >= len(want) || listed.Ref.String() != want[i] {
			return fmt.Sprintf("the page has %s at place %d", listed.Ref, i)
		}
	}
	if len(page.Tasks) == 0 && len(want) > 0 {
		return "the page is empty"
	}
	for _, state := range task.States {
		filter.States = []task.State{state}
		n := len(f.want(filter))
		if want := (listing.Count{Tasks: min(n, 100), About: n > 100}); counts[state] != want {
			return fmt.Sprintf("%s: counted %+v, want %+v", state, counts[state], want)
		}
	}
	return ""
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
			filter, limit := f.filter(), 1+f.random.IntN(40)
			got, want := listAll(t, w, filter, limit), f.want(filter)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: %+v (-want +got):\n%s", seed, filter, diff)
			}
			if diff := f.counted(filter, limit, want); diff != "" {
				t.Fatalf("seed %d: %+v: %s", seed, filter, diff)
			}
		}
	}
}

// A count looks at some rows only. If few of these are out of date, it tells how many of all are.
func TestCountStates_TellsTheLeaderWhatIsOutOfDate(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	all := packers(w)
	packAll(t, w, all)
	var defs []task.Definition
	for i := range 1300 {
		defs = append(defs, task.Definition{
			Ref: task.Ref{Namespace: "default", ID: fmt.Sprintf("t@%d", i)}, Type: "http", Queue: "low", Delay: time.Hour,
		})
	}
	for some := range slices.Chunk(defs, 400) {
		for _, c := range w.Tasks.Create(w.Ctx, some) {
			testkit.Must(t, c.Err)
		}
	}
	packAll(t, w, all)
	for i := 0; i < len(defs); i += 13 {
		_, err := w.Tasks.Cancel(w.Ctx, defs[i].Ref, "")
		testkit.Must(t, err)
	}
	wakes := w.DB.Subscribe(w.Ctx, string(w.Layout.WakeOf(defs[0].Ref)))
	defer func() { _ = wakes.Close() }()
	_, err := wakes.Receive(w.Ctx)
	testkit.Must(t, err)
	counts, err := w.Listing.CountStates(w.Ctx, tasks.Filter{Namespace: "default", Queue: "low"})
	if got := counts[task.Scheduled]; err != nil || got != (listing.Count{Tasks: 1000, About: true}) {
		t.Errorf("counted %+v, %v", got, err)
	}
	told, err := wakes.ReceiveTimeout(w.Ctx, 5*time.Second)
	if err != nil || !strings.Contains(fmt.Sprint(told), "stale ") {
		t.Errorf("the leader was told %v, %v", told, err)
	}
	_, counts, err = w.Listing.ListAndCount(w.Ctx, tasks.Filter{Namespace: "default", Queue: "low"}, 10, "")
	want := map[task.State]listing.Count{
		task.Scheduled: {Tasks: 100, About: true}, task.Cancelled: {Tasks: 100}, task.Queued: {}, task.Running: {},
		task.Succeeded: {}, task.Failed: {},
	}
	if diff := cmp.Diff(want, counts); diff != "" || err != nil {
		t.Errorf("counts beside a list (-want +got), %v:\n%s", err, diff)
	}
}

func TestList_TellsTheLeaderWhatIsOutOfDate(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.PageTime = time.Hour // a machine may be slow
	packers := packers(w)
	packAll(t, w, packers)
	const many = 16 * 200
	var defs []task.Definition
	for i := range many {
		defs = append(defs, task.Definition{
			Ref: task.Ref{Namespace: "default", ID: fmt.Sprint("t", i)}, Type: "http", Queue: "low", Delay: time.Hour,
		})
	}
	for some := range slices.Chunk(defs, 400) {
		for _, c := range w.Tasks.Create(w.Ctx, some) {
			testkit.Must(t, c.Err)
		}
	}
	packAll(t, w, packers)
	low := tasks.Filter{Namespace: "default", Queue: "low"}
	expect := func(scheduled, cancelled listing.Count) {
		t.Helper()
		counts, err := w.Listing.CountStates(w.Ctx, low)
		if err != nil || counts[task.Scheduled] != scheduled || counts[task.Cancelled] != cancelled {
			t.Errorf("counted %+v, %v, want %+v and %+v", counts, err, scheduled, cancelled)
		}
	}
	expect(listing.Count{Tasks: 1000, About: true}, listing.Count{})
	for _, d := range defs {
		_, err := w.Tasks.Cancel(w.Ctx, d.Ref, "")
		testkit.Must(t, err)
	}
	packAll(t, w, packers)
	expect(listing.Count{}, listing.Count{Tasks: 1000, About: true}) // though the index still has the rows from before
	told := make(map[int]string)
	channels := make(map[string]int)
	var names []string
	for p := range packers {
		name := string(w.Layout.Keys.Wake(p))
		names, channels[name] = append(names, name), p
	}
	wakes := w.DB.Subscribe(w.Ctx, names...)
	defer func() { _ = wakes.Close() }()
	_, err := wakes.Receive(w.Ctx)
	testkit.Must(t, err)
	waiting := tasks.Filter{Namespace: "default", Queue: "low", States: []task.State{task.Scheduled}}
	if got := listAll(t, w, waiting, 50); len(got) != 0 {
		t.Errorf("%d tasks wait that are cancelled", len(got))
	}
	testkit.Eventually(t, "a list tells what is out of date", func() bool {
		message, err := wakes.ReceiveMessage(w.Ctx)
		testkit.Must(t, err)
		told[channels[message.Channel]] = message.Payload
		return len(told) == len(packers)
	})
	for p, payload := range told {
		var segment int
		_, err := fmt.Sscanf(payload, "stale %d", &segment)
		testkit.Must(t, err)
		packers[p].Suspect([]int{segment})
	}
	packAll(t, w, packers)
	rows := 0
	for p := range packers {
		fields, err := w.DB.HGetAll(w.Ctx, string(w.Layout.Keys.Partition(p).Listed())).Result()
		testkit.Must(t, err)
		for number, text := range fields {
			if summary, err := index.DecodeSummary(1, []byte(text)); err == nil && number != "*" && summary.Waits {
				rows += summary.Rows
			}
		}
	}
	if rows != 0 {
		t.Errorf("%d rows are left of tasks that do not wait", rows)
	}
}

// rewriting has the leader write all segments anew each time a list is about to read rows.
type rewriting struct {
	redis.Hook
	rows    string // a part of the names of the keys that have them
	rewrite func()
	busy    bool
	times   int
}

func (h *rewriting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *rewriting) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *rewriting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		reads := func(c redis.Cmder) bool {
			return c.Name() == "hmget" && strings.HasSuffix(fmt.Sprint(c.Args()[1]), h.rows)
		}
		if !h.busy && slices.ContainsFunc(commands, reads) {
			h.busy = true
			h.rewrite()
			h.busy = false
			h.times++
		}
		return next(ctx, commands)
	}
}

// A list reads the rows of segments that are replaced meanwhile. They are gone some time later.
func TestList_ReadsSegmentsThatAreReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	w := storetest.New(t)
	w.PageTime = time.Hour
	packers := packers(w)
	packAll(t, w, packers)
	var want []string
	for i := range 100 {
		d := task.Definition{
			Ref: task.Ref{Namespace: "default", ID: fmt.Sprint("t", i)}, Type: "http", Queue: "low", Delay: time.Hour,
		}
		testkit.Must(t, w.Tasks.Create(w.Ctx, []task.Definition{d})[0].Err)
		want = append(want, d.Ref.String())
	}
	packAll(t, w, packers)
	hook := &rewriting{rows: ":listed:rows", rewrite: func() {
		for p, segments := range segmentsOf(t, w) {
			packers[p].Suspect(segments)
		}
		packAll(t, w, packers)
	}}
	w.DB.AddHook(hook)
	got := listAll(t, w, tasks.Filter{Namespace: "default", Queue: "low"}, 10)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || hook.times < 10 {
		t.Errorf("listed %d of %d, while all was written anew %d times", len(got), len(want), hook.times)
	}
	hook.busy, w.PageTime = true, 0
	if rest := packers[1].Rest(time.Hour); rest != 0 {
		t.Errorf("the leader rests for %s, though there are rows to sweep", rest)
	}
	packers = append(packersOf(w, 1), packers[1:]...) // one of another leader, which has to find what is left
	packAll(t, w, packers)
	if rest := packers[1].Rest(time.Hour); rest != time.Hour {
		t.Errorf("the leader rests for %s, though there is nothing to sweep", rest)
	}
	for p, segments := range segmentsOf(t, w) {
		blocks, err := w.DB.HKeys(w.Ctx, string(w.Layout.Keys.Partition(p).ListedRows())).Result()
		testkit.Must(t, err)
		if len(blocks) != len(segments) {
			t.Errorf("partition %d: there are rows %q of segments %d", p, blocks, segments)
		}
	}
}

// segmentsOf are the numbers of the segments by partition.
func segmentsOf(t *testing.T, w *storetest.World) map[int][]int {
	t.Helper()
	found := make(map[int][]int)
	for p := range w.Layout.Partitions() {
		names, err := w.DB.HKeys(w.Ctx, string(w.Layout.Keys.Partition(p).Listed())).Result()
		testkit.Must(t, err)
		for _, name := range names {
			if number, err := strconv.Atoi(name); err == nil {
				found[p] = append(found[p], number)
			}
		}
	}
	return found
}

func TestList_FindsTheErrorThatAListShows(t *testing.T) {
	t.Parallel()
	cause := rollup.Shape("connection refused by 10.0.0.5")
	filter := index.Filter{Causes: []string{"refused by 10.0.0.7", rollup.Shape("refused by 10.0.0.7")}}
	if !filter.Matches(index.Row{Kind: index.Kind{State: task.Failed, Cause: cause}}) {
		t.Errorf("the cause %q is not found", cause)
	}
}
