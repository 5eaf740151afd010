package grpcexec

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/dts-sched/dts/internal/worker/executor"
)

func TestExecutor_SaysWhichStatusCodesAreFinal(t *testing.T) {
	t.Parallel()
	final := map[string]bool{
		"INVALID_ARGUMENT": true, "NOT_FOUND": true, "ALREADY_EXISTS": true, "PERMISSION_DENIED": true, "UNAUTHENTICATED": true,
		"FAILED_PRECONDITION": true, "OUT_OF_RANGE": true, "UNIMPLEMENTED": true,
	}
	s := serve(t, true)
	e := newExecutor(t)
	for number, name := range code.Code_name {
		if number == 0 {
			continue
		}
		payload := object{"target": s.target, "method": unary, "request": object{"responseStatus": object{"code": number, "message": "why"}}}
		_, err := execute(t, e, payload)
		if want := name + ": why"; err == nil || err.Error() != want || executor.IsPermanent(err) != final[name] {
			t.Errorf("got %v, final %v; want %s, final %v", err, executor.IsPermanent(err), want, final[name])
		}
		payload["retry_codes"] = []string{"NOT_FOUND", "UNIMPLEMENTED"}
		_, err = execute(t, e, payload)
		if again := name == "NOT_FOUND" || name == "UNIMPLEMENTED"; executor.IsPermanent(err) != (final[name] && !again) {
			t.Errorf("%s with retry_codes: %v", name, err)
		}
	}
	if n := s.accepted.Load(); n != 1 {
		t.Errorf("%d connections: a status is no reason to connect anew", n)
	}
}

func TestExecutor_WaitsAsLongAsTheStatusAsks(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	e := newExecutor(t)
	for number, codes := range map[int][]string{14: nil, 8: nil, 5: {"NOT_FOUND"}} {
		for message, want := range map[string]time.Duration{"7s": 7 * time.Second, "0s": 0, "-1s": 0, "200h": 24 * time.Hour, "soon": 0} {
			_, err := execute(t, e, object{
				"target": s.target, "method": unary, "retry_codes": codes, "request": object{"responseStatus": object{"code": number, "message": message}},
			})
			if got := executor.Wait(err); err == nil || got != want || executor.IsPermanent(err) {
				t.Errorf("%s: %v, wait %s; want %s", fmt.Sprint(number, message), err, got, want)
			}
			if snoozes := want > 0 && number != 5; executor.IsSnooze(err) != snoozes {
				t.Errorf("%s: %v uses no attempt up: %t", fmt.Sprint(number, message), err, !snoozes)
			}
		}
	}
	_, err := execute(t, e, object{"target": s.target, "method": unary, "request": object{"responseStatus": object{"code": 5, "message": "7s"}}})
	if !executor.IsPermanent(err) || executor.Wait(err) != 0 {
		t.Errorf("a final status: %v", err)
	}
}
