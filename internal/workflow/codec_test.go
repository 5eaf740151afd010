package workflow

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func anyRun(random *rand.Rand, steps int) Run {
	moment := func() time.Time { return time.UnixMilli(random.Int64N(1 << 42)).UTC() }
	phases := []Phase{"", PhaseMain, PhaseOnFailure, PhaseFinally, PhaseEnded}
	is := func() bool { return random.IntN(2) == 0 }
	texts := []string{
		"", "", "its condition is false", "\"a\"\nb \\", "1 \"2", "é\x00", `{"approved":true,"note":"\n \""}`, "a <b>",
	}
	text := func() string { return texts[random.IntN(len(texts))] }
	data := func() json.RawMessage {
		return []json.RawMessage{nil, json.RawMessage(`{"n":1}`), json.RawMessage(`"a\n\\ \" \u003c"`)}[random.IntN(3)]
	}
	r := Run{
		Plans: random.IntN(1000), Attempt: random.IntN(5), Phase: phases[random.IntN(len(phases))], Begun: moment(),
		Cancelled: is(), Late: is(), Stopped: is(), Paused: is(),
	}
	if is() {
		r.Closing = moment()
	}
	for range random.IntN(3) * random.IntN(2) {
		r.Signals = append(r.Signals, Signal{Name: text(), Data: data(), By: text(), At: moment()})
	}
	all := []State{
		Blocked, Waiting, Active, State(Succeeded), State(Failed), State(Cancelled), State(Skipped), State(UpstreamFailed),
	}
	for range steps {
		s := StepRun{State: all[random.IntN(len(all))], Generation: random.IntN(40)}
		switch {
		case s.State == Active:
			if s.Released, s.At, s.Stopping = 1+random.IntN(100), moment(), is(); s.Stopping {
				s.Reason = text()
			}
		case s.State == Waiting:
			s.Released, s.At = 1+random.IntN(100), moment()
			if s.Since = s.At; is() {
				s.Until = moment()
			}
		case s.State.Final():
			s.Released, s.Decided, s.At, s.Choice = random.IntN(100), random.IntN(100), moment(), random.IntN(3)
			if s.Reason = text(); is() {
				s.Since, s.Output = moment(), text()
			}
			if !s.Since.IsZero() && is() {
				s.Until = moment()
			}
		}
		r.Steps = append(r.Steps, s)
	}
	return r
}

func TestRun_IsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 3))
		r := anyRun(random, 1+random.IntN(20))
		got, err := DecodeRun(r.Encode(), len(r.Steps))
		if diff := cmp.Diff(r, got); err != nil || diff != "" {
			t.Fatalf("seed %d: %v\n%s\n(-want +got):\n%s", seed, err, r.Encode(), diff)
		}
	}
}

func TestDecodeRun_RefusesWhatItDidNotWrite(t *testing.T) {
	t.Parallel()
	good := "1 2 1 m - loyw3v28\nb\na1 1 loyw3v28\n"
	if _, err := DecodeRun(good, 2); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "\n", "2" + good[1:], good + "b\n",
		strings.Replace(good, "b\n", "\n", 1), strings.Replace(good, "b\n", "z\n", 1),
		strings.Replace(good, " m ", " x ", 1), strings.Replace(good, " - ", " zz ", 1),
		strings.Replace(good, "a1 1", "a1 -", 1), strings.Replace(good, "a1 1", "a1 -1", 1),
		strings.Replace(good, "v28\nb", "v28 \"[{}\"\nb", 1), strings.Replace(good, "v28\nb", "v28 \"[]\"\nb", 1),
		strings.Replace(good, "v28\nb", "v28 \"null\"\nb", 1), strings.Replace(good, "v28\nb", "v28 \"\nb", 1),
		strings.Replace(good, "a1 1 loyw3v28", "w1 1 loyw3v28 0", 1),
		strings.Replace(good, "b\n", "s 0 1 1 0 0 0 \"x\" \"\"\n", 1),
		strings.Replace(good, "b\n", "s 0 1 1 \"x\"y\n", 1), strings.Replace(good, "b\n", "s 0 1 1 \"\" \"y\n", 1),
		strings.Replace(good, "a1 1", "a01 1", 1), strings.Replace(good, "b\n", "f 0 1 1 0 \"x\n", 1),
	} {
		if r, err := DecodeRun(bad, 2); err == nil {
			t.Errorf("%q was read as %+v", bad, r)
		}
	}
}

func FuzzDecodeRun(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(anyRun(rand.New(rand.NewPCG(seed, 4)), 3).Encode())
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := DecodeRun(text, 3)
		if err == nil && r.Encode() != text && r.Encode() != text+"\n" {
			t.Errorf("%q was read as %q", text, r.Encode())
		}
	})
}

// Whatever a line says, it is read as what it says, or not at all.
func FuzzParseAsk(f *testing.F) {
	asks := waitStep("ok", Wait{Approval: &Approval{}})
	flow, err := Compile(workflow(step("a"), waitStep("w", Wait{Signal: "paid"}), asks))
	if err != nil {
		f.Fatal(err)
	}
	for _, a := range []Ask{
		{Do: DoPause}, {Do: DoResume}, {Do: DoRerun}, {Do: DoRerun, Steps: []int{0, 1}},
		signalled("paid", `{"n": "\u003c a\nb"}`, "ann"), signalled("paid", "", ""),
		answered(2, 1, `{"approved":true,"by":"ann","note":"a b","data":{"n":1}}`), answered(2, -1, `{}`),
	} {
		f.Add(a.Encode(flow))
	}
	for _, line := range []string{
		"", "pause  ", "pause z", "signal", "signal {}", "signal null", "answer ok", "answer ok x {}", "answer z 1 {}",
		"answer ok 1 null", "answer ok 1 [", "rerun a a", `signal {"name":"paid","at":"2026-11-30T18:00:00Z"}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a, ok := flow.ParseAsk(line)
		if Words(line); !ok || strings.Contains(line, "\n") {
			return
		}
		again := a.Encode(flow)
		if strings.Contains(again, "\n") {
			t.Errorf("%q is written as %q, which is more than a line", line, again)
		}
		if b, ok := flow.ParseAsk(again); !ok || b.Encode(flow) != again {
			t.Errorf("%q is written as %q, and that is read as %+v: %t", line, again, b, ok)
		}
		r := NewRun(flow)
		r.Attempt, r.Phase, r.Begun = 1, PhaseMain, time.UnixMilli(1).UTC()
		in := Input{Now: r.Begun, Room: 100, About: About{Params: map[string]any{}}}
		r = Next(flow, r, in).Run // its steps wait
		in.Asks = []Ask{a, a}
		p := Next(flow, r, in)
		text := p.Run.Encode()
		if got, err := DecodeRun(text, flow.Len()); err != nil || got.Encode() != text {
			t.Errorf("after %q the run is %q, which is read as %q: %v", line, text, got.Encode(), err)
		}
		if len(p.Run.Signals) > 1 {
			t.Errorf("after %q twice the run has the signals %+v", line, p.Run.Signals)
		}
	})
}

// What a run keeps of a step that is not released.
func TestRun_ABlockedStepTakesTwoBytes(t *testing.T) {
	t.Parallel()
	r := Run{Phase: PhaseMain, Steps: make([]StepRun, 1000)}
	for i := range r.Steps {
		r.Steps[i].State = Blocked
	}
	few := Run{Phase: PhaseMain}
	if got := len(r.Encode()) - len(few.Encode()); got != 2000 {
		t.Errorf("1,000 blocked steps take %d bytes, want 2,000", got)
	}
}

// Steps that wait cost nothing where there are none: the text of such a run is what it was before they could.
func TestRun_WithoutWaitsIsWrittenAsBefore(t *testing.T) {
	t.Parallel()
	moment := time.UnixMilli(1_800_000_000_000).UTC()
	r := Run{Plans: 7, Attempt: 1, Phase: PhaseMain, Begun: moment, Late: true, Steps: []StepRun{
		{State: Blocked}, {State: Blocked, Generation: 2},
		{State: Active, Generation: 1, Released: 3, At: moment},
		{State: Active, Generation: 1, Released: 3, At: moment, Stopping: true, Reason: "late"},
		{State: State(Succeeded), Generation: 1, Released: 1, Decided: 2, At: moment},
		{State: State(Succeeded), Decided: 2, At: moment, Choice: 1},
		{State: State(Failed), Generation: 1, Released: 1, Decided: 2, At: moment, Reason: "x \"y\""},
		{State: State(Skipped), Decided: 2, At: moment, Reason: "its condition is false"},
		{State: State(UpstreamFailed), Decided: 4, At: moment},
	}}
	const want = `1 7 1 m l MOMENT
b
b2
a1 3 MOMENT
a1 3 MOMENT 1 "late"
s1 1 2 MOMENT
s 0 2 MOMENT 1
f1 1 2 MOMENT 0 "x \"y\""
k 0 2 MOMENT 0 "its condition is false"
u 0 4 MOMENT
`
	if diff := cmp.Diff(strings.ReplaceAll(want, "MOMENT", "mywpiww0"), r.Encode()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeProgress_CountsSteps(t *testing.T) {
	t.Parallel()
	steps := []StepRun{
		{State: Blocked}, {State: Active, Released: 1}, {State: State(Failed), Reason: "a\nb"}, {State: Blocked},
	}
	got, err := DecodeProgress(Run{Phase: PhaseMain, Paused: true, Steps: steps}.Encode())
	want := Progress{PhaseMain, true, 4, map[State]int{Blocked: 2, Active: 1, State(Failed): 1}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || got.Ended() != 1 {
		t.Errorf("%v, ended: %d\n%s", err, got.Ended(), diff)
	}
	for _, text := range []string{"", "\n", "2 0 0 n -\n", "1 0 0 n -\nz\n"} {
		if got, err := DecodeProgress(text); err == nil {
			t.Errorf("%q became %+v", text, got)
		}
	}
}
