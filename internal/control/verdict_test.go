package control

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/remote"
	"github.com/dts-sched/dts/internal/store/tasks"
)

func TestVerdictOf_IsWhatAWorkerCanStillDo(t *testing.T) {
	limit := time.Now()
	for _, test := range []struct {
		when string
		e    tasks.Extended
		want Verdict
	}{
		{"it runs", tasks.Extended{Now: limit.Add(-time.Minute)}, VerdictRunning},
		{"it was cancelled", tasks.Extended{Now: limit.Add(-time.Minute), Cancelled: true}, VerdictCancelled},
		{"its timeout is over", tasks.Extended{Now: limit.Add(time.Second - remote.Grace)}, VerdictTimeout},
		{"its limit is over, and no leader has ended it", tasks.Extended{Err: fmt.Errorf("a: %w", tasks.ErrOver)}, VerdictTimeout},
		{"it has ended", tasks.Extended{Err: fmt.Errorf("a: %w", tasks.ErrStale)}, VerdictLost},
		{"Redis may not know it yet", tasks.Extended{Err: fmt.Errorf("a: %w", tasks.ErrBehind)}, VerdictUnknown},
		{"Redis does not answer", tasks.Extended{Err: errors.New("no answer")}, VerdictUnknown},
	} {
		if got := verdictOf(&tasks.Run{Limit: limit}, test.e); got != test.want {
			t.Errorf("%s: %s, want %s", test.when, got, test.want)
		}
	}
}
