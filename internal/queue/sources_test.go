package queue

import (
	"maps"
	"slices"
	"testing"
)

func TestSources_ShareByWeightWhateverThePortion(t *testing.T) {
	t.Parallel()
	for _, portion := range []int{1, 2, 7, 64} {
		s := newSources(map[string]int{"a": 6, "b": 3, "c": 1})
		got := map[string]int{}
		for taken := 0; taken < 6400; {
			n := min(portion, 6400-taken)
			for _, p := range s.share(n) {
				got[p.queue] += p.limit
			}
			taken += n
			s.markAll()
		}
		if want := map[string]int{"a": 3840, "b": 1920, "c": 640}; !maps.Equal(got, want) {
			t.Errorf("portions of %d: %v, want %v", portion, got, want)
		}
	}
}

func TestSources_ShareAmongTheReadyOnly(t *testing.T) {
	t.Parallel()
	s := newSources(map[string]int{"a": 6, "b": 3})
	s.share(64)
	if s.ready() {
		t.Error("queues that got a portion are still ready")
	}
	if got := s.share(10); got != nil {
		t.Errorf("shared %v though nothing is ready", got)
	}
	s.mark("b")
	if got := s.share(10); len(got) != 1 || got[0] != (portion{"b", 10}) {
		t.Errorf("shared %v, want all of it from b", got)
	}
}

// A message that arrives while a take is under way must not be forgotten when the reply says that nothing is left.
func TestSources_AreReadyForWhatArrivesDuringATake(t *testing.T) {
	t.Parallel()
	s := newSources(map[string]int{"a": 1})
	s.share(1)  // the take begins
	s.mark("a") // a delivery arrives
	if !s.ready() {
		t.Error("the arrival was forgotten")
	}
}

func TestSources_NoQueueStarves(t *testing.T) {
	t.Parallel()
	s := newSources(map[string]int{"a": 1000, "b": 0})
	for range 1001 {
		for _, p := range s.share(1) {
			if p.queue == "b" {
				return
			}
		}
		s.markAll()
	}
	t.Error("1001 turns, and none was for b")
}

func TestSources_NextGoesRound(t *testing.T) {
	t.Parallel()
	s := newSources(map[string]int{"a": 1, "b": 1, "c": 1})
	for _, want := range [][]string{{"a", "b"}, {"c", "a"}, {"b", "c"}} {
		if got := s.next(2); !slices.Equal(got, want) {
			t.Errorf("next are %v, want %v", got, want)
		}
	}
	if got := s.next(64); len(got) != 3 {
		t.Errorf("next are %v, want each queue once", got)
	}
}

func TestSources_TellOfWhatTheyAloneKnowWhileTheyWait(t *testing.T) {
	t.Parallel()
	s := newSources(map[string]int{"a": 1, "b": 1, "c": 1})
	s.share(64)
	s.mark("b") // by its own look, which tells nobody
	if s.markAlone("a") || s.markAlone("b") || s.markAlone("nobody's") {
		t.Error("the others are to be told although a slot may be free")
	}
	s.mark("b")
	s.markTold("a")
	if got := s.setBusy(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the others are to be told of %v, want b: they know of a", got)
	}
	if got := s.setBusy(); got != nil {
		t.Errorf("they are to be told of %v again", got)
	}
	if !s.markAlone("c") {
		t.Error("nobody else is told of c")
	}
	s.setFree()
	s.share(64)
	if s.markAlone("b"); !s.ready() || len(s.share(1)) != 1 || s.setBusy() != nil {
		t.Error("b was shared, so nobody is to be told of it")
	}
}
