package httpexec

import (
	"testing"
	"time"
)

func TestDescribe_AnAttemptMayTakeHalfAMinute(t *testing.T) {
	if got := Describe().Timeout; got != 30*time.Second {
		t.Errorf("the default timeout is %s, want 30s", got)
	}
}
