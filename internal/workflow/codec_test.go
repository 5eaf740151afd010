package workflow

import (
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
	r := Run{
		Plans: random.IntN(1000), Attempt: random.IntN(5), Phase: phases[random.IntN(len(phases))], Begun: moment(),
		Cancelled: is(), Late: is(), Stopped: is(), Paused: is(),
	}
	if is() {
		r.Closing = moment()
	}
	all := []State{
		Blocked, Active, State(Succeeded), State(Failed), State(Cancelled), State(Skipped), State(UpstreamFailed),
	}
	for range steps {
		s := StepRun{State: all[random.IntN(len(all))], Generation: random.IntN(40)}
		switch {
		case s.State == Active:
			if s.Released, s.At, s.Stopping = 1+random.IntN(100), moment(), is(); s.Stopping {
				s.Reason = []string{"", "the run was cancelled", "\"a\"\nb"}[random.IntN(3)]
			}
		case s.State.Final():
			s.Released, s.Decided, s.At, s.Choice = random.IntN(100), random.IntN(100), moment(), random.IntN(3)
			s.Reason = []string{"", "", "its condition is false", "\"a\"\nb \\", "1 \"2", "é\x00"}[random.IntN(6)]
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
