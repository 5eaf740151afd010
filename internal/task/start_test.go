package task

import (
	"testing"
	"time"
)

// TestLate_IsFromTheTimeByWhichAWorkerMustBegin, and not from a ms later: the leader looks at that time.
func TestLate_IsFromTheTimeByWhichAWorkerMustBegin(t *testing.T) {
	due := time.UnixMilli(1_700_000_000_000)
	d := Task{Definition: Definition{StartBy: time.Minute}, State: Scheduled, DueAt: due}
	by := due.Add(time.Minute)
	if why, at := d.Late(by.Add(-time.Millisecond)); why != "" || !at.Equal(by) {
		t.Errorf("a ms before, it ends, as %q, or will at %s", why, at)
	}
	if why, at := d.Late(by); why == "" || !at.IsZero() {
		t.Errorf("then, it ends, as %q, or will at %s", why, at)
	}
	d.State, d.Attempt = Running, 1
	if why, at := d.Late(by); why != "" || !at.IsZero() {
		t.Errorf("begun, it ends, as %q, or will at %s", why, at)
	}
}
