package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/storetest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// seen is Redis as both the model and the real scripts have it. Times are in ms; 0 is none.
type seen struct {
	Tasks    []seenTask
	Fence    lua.Fence
	Free     bool
	Cursor   int
	Next     int // -1: at once
	Outcomes []string
	Live     []string
	Waiting  []string
	Flow     seenFlow
}

type seenTask struct {
	State           string
	Place           string
	Attempt         int
	Run             string
	Claim, LeaseEnd int64
	Cancel          bool
	Look, Over      bool
	Marked          bool
	Remembered      bool     // its name is taken, though it was deleted
	Outbox          []string // entries about the task
	FollowUps       []string
	Deliveries      []seenDelivery
}

type seenDelivery struct {
	State    string
	Claim    int64
	Stale    bool
	Unlisted bool
}

// expected is what the model has.
func (w *world) expected(s *State) seen {
	r := &s.Redis
	v := seen{Fence: w.fences[r.Lease.Newest], Free: r.Lease.Free}
	for i := range w.m.tasks() {
		t := &r.Tasks[i]
		st := seenTask{
			State: t.State.String(), Place: t.Place.String(), Attempt: int(t.Attempt), Run: w.runs[t.Run],
			Claim: w.claims[i][t.Claim], LeaseEnd: w.leaseEnds[i][t.LeaseEnd], Cancel: t.Cancel, Look: t.Look, Over: t.Over,
		}
		if t.Run == runLost || t.Run == runUnknown {
			st.Run = "lost"
		}
		st.Marked, st.Remembered = t.Follow.Marked, t.Remembered
		for f := t.Follow; f.owes(); {
			attempt, state := f.oldest()
			st.Outbox = append(st.Outbox, w.entry(uint8(i), attempt, state))
			f.Owed[attempt].remove(state)
		}
		for attempt, there := range t.Follow.There {
			if there {
				st.FollowUps = append(st.FollowUps, w.refs[i].FollowUp(attempt).ID)
			}
		}
		for k := range w.m.attempts() {
			d := t.Deliveries[k]
			st.Deliveries = append(st.Deliveries, seenDelivery{d.State.String(), w.claims[i][d.Claim], d.Stale, d.Unlisted})
		}
		v.Tasks = append(v.Tasks, st)
	}
	if w.m.Steps > 0 {
		v.Flow = w.expectedFlow(r)
	}
	if w.m.Ticks == 0 {
		return v
	}
	g := r.Schedule
	v.Cursor, v.Next = int(g.Cursor), int(g.Next)
	if g.Next == 0 {
		v.Next = -1
	}
	for i := range w.m.Ticks {
		name := schedule.TickName(w.tick(uint8(i) + 1))
		if g.Ledger[i] != Undecided {
			v.Outcomes = append(v.Outcomes, g.Ledger[i].String())
		}
		if g.Ledger[i] == Waits {
			v.Waiting = append(v.Waiting, fmt.Sprintf("%d %s", w.tick(uint8(i)+1).UnixMilli(), name))
		}
		if st := r.Tasks[i].State; st != None && !st.Final() {
			v.Live = append(v.Live, name)
		}
	}
	return v
}

// real is what Redis has.
func (w *world) real() seen {
	w.t.Helper()
	k := w.keys()
	v := seen{}
	v.Fence = lua.Fence(read(w, w.DB.Get(w.ctx, string(k.Lease()))))
	v.Free = read(w, w.DB.Exists(w.ctx, string(k.Term(string(v.Fence))))) == 0
	now, err := w.Now(w.ctx, 0)
	testkit.Must(w.t, err)
	for i := range w.m.tasks() {
		v.Tasks = append(v.Tasks, w.realTask(uint8(i), now.UnixMilli()))
	}
	if w.m.Ticks > 0 {
		w.realSchedule(&v)
	}
	if w.m.Steps > 0 {
		v.Flow = w.realFlow(now.UnixMilli())
	}
	return v
}

// read returns the reply of Redis: the zero value of what is not there. Any other error fails the test.
func read[T any](w *world, cmd interface{ Result() (T, error) }) T {
	w.t.Helper()
	v, err := cmd.Result()
	if !errors.Is(err, redis.Nil) {
		testkit.Must(w.t, err)
	}
	return v
}

// realTask reads a task and its deliveries.
func (w *world) realTask(of uint8, now int64) seenTask {
	w.t.Helper()
	ref, k := w.refs[of], w.keys()
	pipe := w.DB.Pipeline()
	exists, text := pipe.HExists(w.ctx, string(k.Defs()), ref.String()), pipe.HGet(w.ctx, string(k.States()), ref.String())
	remembered := pipe.HExists(w.ctx, string(k.Remembered()), ref.String())
	scores := make([]*redis.FloatCmd, 4)
	for i, set := range []string{string(k.Wheel()), string(k.Ready(w.queueOf(of))), string(k.Queued()), string(k.Held())} {
		scores[i] = pipe.ZScore(w.ctx, set, ref.String())
	}
	q := w.asynq(of)
	pending, active := pipe.LRange(w.ctx, string(q.Pending()), 0, -1), pipe.LRange(w.ctx, string(q.Active()), 0, -1)
	ends := pipe.ZRangeWithScores(w.ctx, string(q.Deadline()), 0, -1)
	fields := make([]*redis.SliceCmd, w.m.attempts())
	for a := range fields {
		fields[a] = pipe.HMGet(w.ctx, string(q.Delivery(w.delivery(of, uint8(a)+1))), "state", "msg")
	}
	_, _ = pipe.Exec(w.ctx) // each reply has its error
	place := func(i int) int64 { return int64(read(w, scores[i])) }
	wheel, ready, queued, held := place(0), place(1), place(2), place(3)
	t := readState(read(w, text), read(w, exists))
	t.LeaseEnd, t.Remembered = held, read(w, remembered) && !read(w, exists) // the name of a restored tick is taken, too
	switch {
	case wheel > now:
		t.Place = "later"
	case wheel > 0:
		t.Place = "due"
	case ready > 0:
		t.Place = "ready"
	}
	t.Look, t.Over = queued > 0 && queued <= now, held > 0 && held <= now
	if w.m.marks() {
		w.readFollowUps(ref, &t)
	}
	for a, f := range fields {
		id := w.delivery(of, uint8(a)+1)
		t.Deliveries = append(t.Deliveries, readDelivery(read(w, f), id, read(w, pending), read(w, active), read(w, ends)))
	}
	return t
}

// readFollowUps reads what the outbox owes to a task, and what follows it.
func (w *world) readFollowUps(ref task.Ref, t *seenTask) {
	w.t.Helper()
	for _, entry := range read(w, w.DB.ZRange(w.ctx, string(w.keys().Outbox()), 0, -1)) {
		if f := strings.Fields(entry); f[0] == "end" && f[1] == ref.String() {
			t.Outbox = append(t.Outbox, entry)
		}
	}
	for attempt := range maxAttempts + 1 {
		if next := ref.FollowUp(attempt); read(w, w.DB.HExists(w.ctx, string(w.keys().Defs()), next.String())) {
			t.FollowUps = append(t.FollowUps, next.ID)
		}
	}
}

// readState reads the state of a task, as lua/include/state.lua has it.
func readState(text string, exists bool) seenTask {
	t := seenTask{State: "none", Place: "nowhere"}
	if !exists {
		return t
	}
	f := strings.Fields(text)
	f = append(f, slices.Repeat([]string{"0"}, 12-len(f))...)
	t.State = f[0]
	if t.State == "0" {
		t.State = "scheduled"
	}
	_, _ = fmt.Sscan(f[1], &t.Attempt)
	if t.State == "queued" || t.State == "running" {
		_, _ = fmt.Sscan(f[5], &t.Claim)
	}
	switch {
	case f[7] == "0":
	case strings.HasSuffix(f[7], "#"):
		t.Run = "lost"
	default:
		t.Run = f[7]
	}
	t.Cancel = t.State == "running" && f[9] != "0"
	t.Marked = strings.HasSuffix(f[2], ">")
	return t
}

// readDelivery reads a delivery. Its lists must agree with it.
func readDelivery(fields []any, id string, pending, active []string, ends []redis.Z) seenDelivery {
	state, _ := fields[0].(string)
	msg, _ := fields[1].(string)
	d := seenDelivery{State: "gone"}
	if state != "" {
		d.State = state
	}
	if _, stamp, ok := strings.Cut(msg, `"claimed_ms":`); ok {
		_, _ = fmt.Sscan(stamp, &d.Claim)
	}
	for _, end := range ends {
		d.Stale = d.Stale || end.Member == id && end.Score == 0
	}
	listed := slices.Index(pending, id)
	d.Unlisted = d.State == "pending" && listed < 0
	twice := listed >= 0 && slices.Contains(pending[listed+1:], id)
	if twice || listed >= 0 && d.State != "pending" || slices.Contains(active, id) != (d.State == "active") {
		d.State += ", and in another list"
	}
	return d
}

// realSchedule reads the schedule.
func (w *world) realSchedule(v *seen) {
	w.t.Helper()
	k := w.keys()
	s, _, err := w.Schedules.Read(w.ctx, storetest.Nightly)
	testkit.Must(w.t, err)
	for v.Cursor < w.m.Ticks && w.decidedUpTo(uint8(v.Cursor)).Before(s.Cursor) {
		v.Cursor++
	}
	next := read(w, w.DB.ZScore(w.ctx, string(k.Ticks()), storetest.Nightly.String()))
	if v.Next = -1; int64(next) < w.began.Add(ago/2).UnixMilli() {
		v.Next = int((int64(next) - w.began.UnixMilli()) / each.Milliseconds())
	}
	for _, outcome := range w.Recorded(storetest.Nightly) {
		v.Outcomes = append(v.Outcomes, string(outcome))
	}
	if live := read(w, w.DB.ZRange(w.ctx, string(k.Live(storetest.Nightly)), 0, -1)); len(live) > 0 {
		v.Live = live
	}
	if waiting := read(w, w.DB.LRange(w.ctx, string(k.Waiting(storetest.Nightly)), 0, -1)); len(waiting) > 0 {
		v.Waiting = waiting
	}
}
