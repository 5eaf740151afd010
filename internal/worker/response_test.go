package worker

import (
	"testing"
	"time"
)

// The average follows attempts that get slower or faster, and no single one moves it far.
func TestResponse_FollowsTheAttempts(t *testing.T) {
	t.Parallel()
	w := &Worker{}
	if w.Response() != 0 {
		t.Errorf("before the first attempt, it is %v", w.Response())
	}
	w.noteResponse(100 * time.Millisecond)
	if w.Response() != 100*time.Millisecond {
		t.Errorf("after the first attempt, it is %v", w.Response())
	}
	w.noteResponse(time.Second)
	if got := w.Response(); got < 150*time.Millisecond || got > 160*time.Millisecond {
		t.Errorf("after one of a second, it is %v", got)
	}
	for range 100 {
		w.noteResponse(time.Second)
	}
	if got := w.Response(); got < 950*time.Millisecond {
		t.Errorf("after a hundred of a second, it is %v", got)
	}
}
