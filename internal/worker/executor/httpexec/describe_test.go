package httpexec

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/worker/executor/address"
)

func TestDescribe_AnAttemptMayTakeHalfAMinute(t *testing.T) {
	if got := Describe(address.New()).Timeout; got != 30*time.Second {
		t.Errorf("the default timeout is %s, want 30s", got)
	}
}
