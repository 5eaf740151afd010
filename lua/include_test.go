package lua_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/lua/contract"
)

// The schedule that the tests of includes work on, and its keys.
const (
	nightly     = "default:nightly"
	inPartition = "dts:{3}:"
	def         = `{"type":"http"}` + "\n{}"
)

// bench runs pieces of Lua that use includes.
type bench struct {
	t         *testing.T
	db        redis.UniversalClient
	reply     []any          // of the last run
	constants map[string]any // in place of those of contract
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return &bench{t: t, db: redistest.Start(t).DB(t).UniversalClient}
}

// run runs a body with includes, as a script on the nightly schedule whose arguments are the channels.
func (b *bench) run(includes, body string) []any {
	b.t.Helper()
	b.reply = nil
	if err := b.try(includes, body); err != nil {
		b.t.Fatal(err)
	}
	return b.reply
}

// try is run for a body that may refuse; it returns the error.
func (b *bench) try(includes, body string) error {
	b.t.Helper()
	l := library(b.t)
	l.Constants = maps.Clone(l.Constants)
	maps.Copy(l.Constants, b.constants)
	c, err := contract.Parse("piece", "-- piece: a test\n-- includes: "+includes+`
-- keys:
--   schedule  HASH
-- args:
--   member   member
--   events   channel
--   control  channel
--   wake     channel
-- repeat: harmless
`+body)
	if err != nil {
		b.t.Fatal(err)
	}
	source, err := l.Compose(c)
	if err != nil {
		b.t.Fatal(err)
	}
	reply, err := b.db.Eval(b.t.Context(), source, []string{inPartition + "schedule:" + nightly}, nightly, "events", "control", "wake").Slice()
	b.reply = reply
	if err != nil {
		return fmt.Errorf("%w\n%s", err, source)
	}
	return nil
}

func (b *bench) do(args ...any) {
	b.t.Helper()
	if err := b.db.Do(b.t.Context(), args...).Err(); err != nil {
		b.t.Fatalf("%v: %v", args, err)
	}
}

func (b *bench) members(kind string) []string {
	return b.db.ZRange(b.t.Context(), inPartition+kind, 0, -1).Val()
}

// ledger is the records by tick, without the time of the decision.
func (b *bench) ledger() []string {
	var records []string
	for _, record := range b.members("ledger:" + nightly) {
		f := strings.SplitN(record, " ", 7)
		records = append(records, strings.Join(slices.Delete(f, 4, 5), " "))
	}
	return records
}

func TestApplyOverlap_DependsOnThePolicyAndOnLiveAndWaitingTicks(t *testing.T) {
	for _, c := range []struct {
		name           string
		overlap        string
		live, waiting  int
		paused         bool
		want           []any // outcome, reason, replaced
		liveAfter      int
		waitingAfter   int
		liveCancelled  bool
		createdTheTask bool
	}{
		{name: "skip, nothing runs", overlap: "skip", want: []any{"fired", "", int64(0)}, liveAfter: 1, createdTheTask: true},
		{name: "skip, one runs", overlap: "skip", live: 1, want: []any{"skipped_overlap", "the task of live0 has not ended", int64(0)}, liveAfter: 1},
		{name: "skip, one waits", overlap: "skip", waiting: 1, want: []any{"skipped_overlap", "another tick waits", int64(0)}, waitingAfter: 1},
		{name: "allow, one runs", overlap: "allow", live: 1, want: []any{"fired", "", int64(0)}, liveAfter: 2, createdTheTask: true},
		{name: "allow, too many run", overlap: "allow", live: schedule.LiveLimit, want: []any{"skipped_overlap", "10000 tasks have not ended", int64(0)}, liveAfter: schedule.LiveLimit},
		{name: "queue, one runs", overlap: "queue", live: 1, want: []any{"queued", "waits for the end of the task before it", int64(0)}, liveAfter: 1, waitingAfter: 1},
		{name: "queue, one waits", overlap: "queue", waiting: 1, want: []any{"queued", "waits for the end of the task before it", int64(0)}, waitingAfter: 2},
		{name: "queue, too many wait", overlap: "queue", live: 1, waiting: schedule.WaitingLimit, want: []any{"skipped_overlap", "100 ticks wait already", int64(0)}, liveAfter: 1, waitingAfter: schedule.WaitingLimit},
		{name: "queue, what waits stands still", overlap: "queue", waiting: 1, paused: true, want: []any{"fired", "", int64(0)}, liveAfter: 1, waitingAfter: 1, createdTheTask: true},
		{name: "replace, one runs", overlap: "replace", live: 1, want: []any{"queued", "waits for the end of the task before it", int64(0)}, liveAfter: 1, waitingAfter: 1, liveCancelled: true},
		{name: "replace, two wait", overlap: "replace", live: 1, waiting: 2, want: []any{"queued", "waits for the end of the task before it", int64(2)}, liveAfter: 1, waitingAfter: 1, liveCancelled: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			for i := range c.live {
				b.do("ZADD", inPartition+"live:"+nightly, i+1, fmt.Sprintf("live%d", i))
			}
			if c.live == 1 {
				b.do("HSET", inPartition+"defs", nightly+"@live0", "1795000000000"+def)
				b.do("HSET", inPartition+"states", nightly+"@live0", "running 1 0 0 0 0 5 node#1")
			}
			for i := range c.waiting {
				b.do("RPUSH", inPartition+"waiting:"+nightly, fmt.Sprintf("%d wait%d", 100+i, i))
			}
			paused := "nil"
			if c.paused {
				paused = "'1'"
			}
			got := b.run("overlap", fmt.Sprintf(
				"return { apply_overlap({ overlap = '%s', revision = '7', task = %s, paused = %s }, 5000, 'now', now) }", c.overlap, strconv.Quote(def), paused))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if n := len(b.members("live:" + nightly)); n != c.liveAfter {
				t.Errorf("%d are live, want %d", n, c.liveAfter)
			}
			if n := int(b.db.LLen(t.Context(), inPartition+"waiting:"+nightly).Val()); n != c.waitingAfter {
				t.Errorf("%d wait, want %d", n, c.waitingAfter)
			}
			if cancelled := strings.HasPrefix(b.db.HGet(t.Context(), inPartition+"states", nightly+"@live0").Val(), "running 1 0 0 0 0 5 node#1 0 "); cancelled != c.liveCancelled {
				t.Errorf("the live task was asked to stop: %v, want %v", cancelled, c.liveCancelled)
			}
			if created := b.db.HExists(t.Context(), inPartition+"defs", nightly+"@now").Val(); created != c.createdTheTask {
				t.Errorf("the task was created: %v, want %v", created, c.createdTheTask)
			}
		})
	}
}

func TestRecordTick_ReplacesTheEarlierRecord(t *testing.T) {
	b := newBench(t)
	decided := b.run("ledger", `
record_tick('1', 1000, 'a', 'queued', 0, 5, 'waits')
record_tick('1', 1000, 'a-manual', 'triggered', 1, 0, '')
record_tick('2', 1000, 'a', 'fired', 1, nil, 'waited')
return recorded`)
	if diff := cmp.Diff([]string{"a fired 1 5 2 waited", "a-manual triggered 1 0 1 "}, b.ledger()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"a", "queued", "a-manual", "triggered", "a", "fired"}, decided); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	found := b.run("ledger", "local r = find_record(member, 1000, 'a') return { r.outcome, r.has_task, r.revision, r.reason, find_record(member, 1000, 'b') == nil and 'none' }")
	if diff := cmp.Diff([]any{"fired", "1", "2", "waited", "none"}, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestTrimLedger_DeletesOldAndSurplusRecordsAndKeepsTheirLastTick(t *testing.T) {
	now := time.Now()
	old := now.Add(-schedule.LedgerHorizon - time.Hour).UnixMilli()
	recent := now.Add(-time.Hour).UnixMilli()
	for _, c := range []struct {
		name      string
		records   []redis.Z
		forgotten int64
		left      int
		known     string
	}{
		{"nothing to forget", zs(recent, 3), 0, 3, ""},
		{"one is too old", append(zs(recent, 3), redis.Z{Score: float64(old), Member: "old"}), 0, 3, ""},
		{"two are too many", zs(recent, schedule.LedgerLimit+2), 0, schedule.LedgerLimit, strconv.FormatInt(recent+1, 10)},
		{"more were never recorded", zs(recent, 3), recent - 5, 3, strconv.FormatInt(recent-5, 10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if err := b.db.ZAdd(t.Context(), inPartition+"ledger:"+nightly, c.records...).Err(); err != nil {
				t.Fatal(err)
			}
			b.run("ledger", fmt.Sprintf("trim_ledger(%d) return {}", c.forgotten))
			if n := len(b.members("ledger:" + nightly)); n != c.left {
				t.Errorf("%d records are left, want %d", n, c.left)
			}
			if known := b.db.HGet(t.Context(), inPartition+"schedule:"+nightly, "known").Val(); known != c.known {
				t.Errorf("records are missing up to %q, want %q", known, c.known)
			}
		})
	}
}

// zs are n members at one ms after the other.
func zs(from int64, n int) []redis.Z {
	all := make([]redis.Z, n)
	for i := range all {
		all[i] = redis.Z{Score: float64(from + int64(i)), Member: fmt.Sprint("m", i)}
	}
	return all
}

func TestTaskEnded_CountsFailuresAndMakesTheScheduleDue(t *testing.T) {
	for _, c := range []struct {
		name     string
		final    string
		schedule map[string]string
		waiting  bool
		want     int64 // 1: it paused the schedule
		failures string
		looked   bool // the leader is to look at the schedule now
	}{
		{name: "a success forgets failures", final: "succeeded", schedule: map[string]string{"def": `{}`, "failures": "4"}},
		{name: "a failure is counted", final: "failed", schedule: map[string]string{"def": `{}`}, failures: "1"},
		{name: "one failure too many", final: "failed", schedule: map[string]string{"def": `{"pause_on_failure":2}`, "failures": "1"}, waiting: true, want: 1, failures: "2"},
		{name: "not one too many yet", final: "failed", schedule: map[string]string{"def": `{"pause_on_failure":3}`, "failures": "1"}, failures: "2"},
		{name: "paused already", final: "failed", schedule: map[string]string{"def": `{"pause_on_failure":2}`, "failures": "1", "paused": "5"}, waiting: true, failures: "2"},
		{name: "a tick waits", final: "cancelled", schedule: map[string]string{"def": `{}`}, waiting: true, looked: true},
		{name: "the schedule is gone", final: "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.do("ZADD", inPartition+"live:"+nightly, 1, "tick")
			for field, value := range c.schedule {
				b.do("HSET", inPartition+"schedule:"+nightly, field, value)
			}
			if c.waiting {
				b.do("RPUSH", inPartition+"waiting:"+nightly, "2 next")
			}
			if len(c.schedule) > 0 {
				b.do("HSET", inPartition+"schedule:"+nightly, "created", "1")
			}
			end := func(state string) string {
				return fmt.Sprintf("task_ended('%s@tick', '%s', 'running 1') and 1 or 0", nightly, state)
			}
			got := b.run("ended", "return { "+end(c.final)+", "+end("failed")+" }")
			if diff := cmp.Diff([]any{c.want, int64(0)}, got); diff != "" { // the second end of one task counts for nothing
				t.Errorf("paused (-want +got):\n%s", diff)
			}
			hash := b.db.HGetAll(t.Context(), inPartition+"schedule:"+nightly).Val()
			if hash["failures"] != c.failures {
				t.Errorf("failures are %q, want %q (%v)", hash["failures"], c.failures, slices.Sorted(maps.Keys(hash)))
			}
			if looked := slices.Contains(b.members("ticks"), nightly); looked != c.looked {
				t.Errorf("the leader looks at it: %v, want %v", looked, c.looked)
			}
		})
	}
}

func TestLookAt_WakesTheLeaderOnlyForTheFirstSchedule(t *testing.T) {
	b := newBench(t)
	sub := b.db.Subscribe(t.Context(), "wake")
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.run("look", "look_at('default:a', 2000) look_at('default:b', 3000) look_at('default:c', 1000) return {}")
	b.do("PUBLISH", "wake", "end")
	var heard []string
	for m := range sub.Channel() {
		if m.Payload == "end" {
			break
		}
		heard = append(heard, m.Payload)
	}
	if diff := cmp.Diff([]string{"schedule", "schedule"}, heard); diff != "" {
		t.Errorf("wakes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"default:c", "default:a", "default:b"}, b.members("ticks")); diff != "" {
		t.Errorf("ticks (-want +got):\n%s", diff)
	}
}

func TestState_IsReadAsItWasWritten(t *testing.T) {
	b := newBench(t)
	for text, want := range map[string]string{
		"scheduled 0":                               "scheduled 0",
		"queued 2 0 7 8 9":                          "queued 2 0 7 8 9",
		"running 1 4 0 8 9 10 node#1 0 0 0":         "running 1 4 0 8 9 10 node#1",
		"failed 1 0 0 8 9 10 a#b#1 50 0 11 timeout": "failed 1 0 0 8 9 10 a#b#1 50 0 11 timeout",
	} {
		got := b.run("state", fmt.Sprintf("local f = parse_state('%s') return { format_state(f), node_of(f.run), f.cancel or 'none' }", text))
		node := map[bool]string{true: "node", false: ""}[strings.HasPrefix(text, "running")]
		if strings.HasPrefix(text, "failed") {
			node = "a#b"
		}
		if diff := cmp.Diff([]any{want, node, "none"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestSplitPayload_StoresLongPayloadsApart(t *testing.T) {
	b := newBench(t)
	got := b.run("definition", `
local long = string.rep('x', INLINE_PAYLOAD_LIMIT)
local def, payload = split_payload('{}\n' .. long)
local def_of_longer, longer = split_payload('{}\n' .. long .. 'y')
redis.call('HSET', payloads_key, 'default:a', longer)
local record = '1795000000000' .. def_of_longer
return { def == '{}\n' .. long, payload == nil, def_of_longer, #longer, #stored_payload('default:a', record),
  stored_payload('default:a', '1795000000000{}\n5'), head_of(record), def_of(record) == def_of_longer }`)
	sum := sha1.Sum([]byte(strings.Repeat("x", task.InlinePayloadLimit) + "y"))
	longer := int64(task.InlinePayloadLimit + 1)
	want := []any{int64(1), int64(1), "{}\n@" + hex.EncodeToString(sum[:]), longer, longer, "", "{}", int64(1)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChanges_AreWrittenAfterTheBodyUnlessItRefuses(t *testing.T) {
	b := newBench(t)
	body := `
put_later(queued_key, 1, 'a') put_later(queued_key, 2, 'b') remove_later(running_key, 'old')
set_later(results_key, 'a', 'x') delete_later(errors_key, 'a')
local before = redis.call('EXISTS', queued_key, results_key) + redis.call('ZCARD', running_key) * 10
`
	b.do("ZADD", inPartition+"running", 1, "old")
	b.do("HSET", inPartition+"errors", "a", "boom")
	if got := b.run("changes", body+"return { before }"); got[0] != int64(10) {
		t.Errorf("before the end: %v, want nothing written", got)
	}
	if got := b.members("queued"); !slices.Equal(got, []string{"a", "b"}) || len(b.members("running")) != 0 {
		t.Errorf("queued are %v, running %v", got, b.members("running"))
	}
	if n := b.db.Exists(t.Context(), inPartition+"results", inPartition+"errors").Val(); n != 1 {
		t.Errorf("%d of results and errors exist, want results alone", n)
	}
	b.do("DEL", inPartition+"queued")
	if err := b.try("refuse, changes", body+"return refuse('NO', before)"); err == nil || len(b.members("queued")) != 0 {
		t.Errorf("refused: %v, queued are %v", err, b.members("queued"))
	}
}

func TestAnnounce_PublishesOneMessageIfSomebodyFollows(t *testing.T) {
	b := newBench(t)
	sub := b.db.Subscribe(t.Context(), "events")
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := "for _, id in ipairs({ 'a', 'b' }) do announce('queued', 'default:' .. id, 'queued', '1', '', '1795000000000" +
		`{"type":"http"}\n{}', '') end return {}`
	b.run("events", body) // nobody follows
	b.do("SET", inPartition+"listeners", "")
	b.run("events", body)
	m, err := sub.ReceiveMessage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(m.Payload, "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"ref":"default:a"`) || !strings.Contains(lines[1], `"ref":"default:b"`) ||
		!strings.Contains(lines[1], `"head":{"type":"http"}`) {
		t.Errorf("published %q, want both events in one message", m.Payload)
	}
}

func TestPolicyOf_FillsInDefaults(t *testing.T) {
	b := newBench(t)
	got := b.run("policy", `
local a, b = policy_of('{}'), policy_of('{"overlap":"queue","max_runs":3,"pause_on_failure":2}')
return { a.overlap, a.max_runs == math.huge and 'no limit', a.pause_on_failure == nil and 'never', b.overlap, b.max_runs, b.pause_on_failure }`)
	want := []any{string(schedule.DefaultOverlap), "no limit", "never", "queue", int64(3), int64(2)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIsLess_ComparesBytes(t *testing.T) {
	b := newBench(t)
	texts := []string{"", "B", "a", "a-b", "aB", "aa", "default:0123456", "default:01234567", "default:01234567\x00", "default:01234568", "default:é", "z"}
	for i, x := range texts {
		for k, y := range texts {
			got := b.run("bytes", fmt.Sprintf("return { is_less(%s, %s) and 1 or 0 }", luaText(x), luaText(y)))[0] == int64(1)
			if want := i < k; got != want {
				t.Errorf("%q before %q: %v", x, y, got)
			}
		}
	}
}

// luaText is a text as Lua spells it.
func luaText(text string) string {
	var spelled strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&spelled, `\%03d`, c)
	}
	return "'" + spelled.String() + "'"
}

func TestInt_LosesNoDigits(t *testing.T) {
	b := newBench(t)
	got := b.run("number", "return { int(1234567890123456), int('42'), int(1e15) }")
	if diff := cmp.Diff([]any{"1234567890123456", "42", "1000000000000000"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPlaceApart_CountsNoLanesOfFairKeys among the names of a namespace, neither those that exist nor those of the same
// claim.
func TestPlaceApart_CountsNoLanesOfFairKeys(t *testing.T) {
	b := newBench(t)
	got := b.run("clock, number, changes, apart", fmt.Sprintf(`
for i = 1, %d do
  redis.call('ZADD', ready_key('queue' .. i), 1, 'default:x')
  redis.call('SADD', backlog_key, 'queue' .. i)
end
redis.call('SADD', backlog_key, 'default * old 1')
local names = {}
for i, name in ipairs({ 'default * a 1', 'default * b 1', 'last', 'further' }) do
  names[i] = place_apart({ name = name, pool = i < 3 and 'default' or name }, 'default:y')
end
return names`, contract.WaitingNamesLimit/2-1))
	want := []any{"default * a 1", "default * b 1", "last", contract.Constants["UNNAMED"]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("they wait under (-want +got):\n%s", diff)
	}
}
