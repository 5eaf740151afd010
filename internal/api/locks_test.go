package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
)

func (r *rig) acquireLock(name, body string) wire.Lock {
	r.t.Helper()
	got := r.call("POST", "/v1/locks/"+name+"/acquire", body)
	if got.status != http.StatusOK {
		r.t.Fatalf("status %d, %s", got.status, got.body)
	}
	var l wire.Lock
	testkit.Must(r.t, json.Unmarshal(got.body, &l))
	return l
}

func TestLocks_AreTakenKeptListedAndReleased(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	l := r.acquireLock("deploy", `{"holder":"me","ttl":"1m","note":"v42"}`)
	if l.Name != "deploy" || l.Namespace != "default" || l.Holder != "me" || l.TTL != "1m" || wire.Value(l.Note) != "v42" || wire.Value(l.Waited) != "" {
		t.Errorf("got %+v", l)
	}
	if p := r.call("POST", "/v1/locks/deploy/acquire", `{"holder":"you","ttl":"1m"}`).problem(t); p.Code != "lock_held" || p.Status != 409 {
		t.Errorf("somebody else: %+v", p)
	}
	if again := r.acquireLock("deploy", `{"holder":"me","ttl":"2m","wait":"1s"}`); again.Fence != l.Fence || wire.Value(again.Waited) == "" {
		t.Errorf("again: %+v", again)
	}
	fenced := func(holder string, fence int64, more string) string {
		return fmt.Sprintf(`{"holder":%q,"fence":%d%s}`, holder, fence, more)
	}
	if got := r.call("POST", "/v1/locks/deploy/renew", fenced("me", l.Fence, `,"ttl":"1h"`)); got.status != 200 {
		t.Errorf("renew: %d %s", got.status, got.body)
	}
	if p := r.call("POST", "/v1/locks/deploy/renew", fenced("you", l.Fence, "")).problem(t); p.Code != "lock_lost" || p.Status != 409 {
		t.Errorf("somebody else's renewal: %+v", p)
	}
	r.acquireLock("other", `{"holder":"me","ttl":"1m"}`)
	var first, second wire.LockList
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/locks?limit=1", "").body, &first))
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/locks?cursor="+wire.Value(first.NextCursor), "").body, &second))
	if len(first.Locks) != 1 || first.Locks[0].TTL != "1h" || len(second.Locks) != 1 || second.Locks[0].Name != "other" || wire.Value(second.NextCursor) != "" {
		t.Errorf("listed %+v, %+v", first, second)
	}
	if got := r.call("GET", "/v1/locks/deploy", ""); got.status != 200 || !strings.Contains(string(got.body), `"ttl":"1h"`) {
		t.Errorf("get: %d %s", got.status, got.body)
	}
	for _, released := range []string{"true", "false"} {
		if got := r.call("POST", "/v1/locks/deploy/release", fenced("me", l.Fence, "")); strings.TrimSpace(string(got.body)) != `{"released":`+released+`}` {
			t.Errorf("release: %d %s", got.status, got.body)
		}
	}
	if p := r.call("GET", "/v1/locks/deploy", "").problem(t); p.Code != "lock_not_found" || p.Status != 404 {
		t.Errorf("get a free lock: %+v", p)
	}
}

func TestLocks_NameTheInvalidField(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	for _, c := range []struct{ call, body, field string }{
		{"acquire", `{"ttl":"1m"}`, "holder"},
		{"acquire", `{"holder":"me"}`, "ttl"},
		{"acquire", `{"holder":"me","ttl":"500ms"}`, "ttl"},
		{"acquire", `{"holder":"me","ttl":"25h"}`, "ttl"},
		{"acquire", `{"holder":"me","ttl":"1m","wait":"21s"}`, "wait"},
		{"acquire", `{"holder":"me","ttl":"1m","for":"1s"}`, "for"},
		{"renew", `{"holder":"me"}`, "fence"},
		{"renew", `{"holder":"me","fence":1,"ttl":"1ms"}`, "ttl"},
		{"release", `{"fence":1}`, "holder"},
	} {
		if p := r.call("POST", "/v1/locks/deploy/"+c.call, c.body).problem(t); p.Code != "invalid" || wire.Value(p.Field) != c.field {
			t.Errorf("%s %s: %+v", c.call, c.body, p)
		}
	}
}

// A server that is told to end does not wait for those who wait for a lock.
func TestAcquireLock_AnswersWhenTheServerEnds(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.acquireLock("deploy", `{"holder":"me","ttl":"1m"}`)
	answers := make(chan answer, 1)
	go func() {
		answers <- r.call("POST", "/v1/locks/deploy/acquire", `{"holder":"you","ttl":"1m","wait":"20s"}`)
	}()
	testkit.Eventually(t, "the request waits", func() bool {
		return r.db.PubSubNumSub(t.Context(), "dts:unlocked").Val()["dts:unlocked"] == 1
	})
	testkit.Must(t, r.stop())
	if p := testkit.Receive(t, answers, "the answer").problem(t); p.Code != "lock_held" {
		t.Errorf("got %+v", p)
	}
}
