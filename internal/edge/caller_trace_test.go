package edge

import (
	"net/http"
	"testing"

	"github.com/dts-sched/dts/internal/tracing"
)

func TestCallerOf_LooksForATraceWithoutAllocation(t *testing.T) {
	h := http.Header{"Dts-Caller": {"ann"}}
	if n := testing.AllocsPerRun(100, func() { _ = h.Get(tracing.Header) }); n != 0 {
		t.Errorf("%v allocations a request, while traces are off", n)
	}
}
