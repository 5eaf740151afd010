package app

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/app/profiles"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// ended submits a task and returns it when it has ended.
func (r *running) ended(id, kind, payload string) string {
	r.t.Helper()
	submission := fmt.Sprintf(`{"id":%q,"type":%q,"payload":%s,"retry":{"max_attempts":1}}`, id, kind, payload)
	if status, body := r.call(http.MethodPost, "/v1/tasks", submission); status != http.StatusCreated {
		r.t.Fatalf("submitting: %d %s", status, body)
	}
	var task string
	testkit.Eventually(r.t, id+" has ended", func() bool {
		_, task = r.call(http.MethodGet, "/v1/tasks/"+id, "")
		return strings.Contains(task, `"state":"succeeded"`) || strings.Contains(task, `"state":"failed"`)
	})
	return task
}

func TestApp_LetsNoTaskCallItsOwnAddresses(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	c := settings(redis.URL())
	c.DebugListen = "127.0.0.1:0"
	r := run(t, Options{Config: c, Profiles: profiles.Handler()})
	_, port, _ := net.SplitHostPort(redis.Addr())
	redirect := httptest.NewServer(http.RedirectHandler("http://"+redis.Addr()+"/", http.StatusTemporaryRedirect))
	t.Cleanup(redirect.Close)
	for name, c := range map[string]struct{ kind, payload, part string }{
		"redis":    {"http", `{"method":"DELETE","url":"http://` + redis.Addr() + `/? victim x"}`, "the Redis of DTS"},
		"name":     {"http", `{"url":"http://localhost:` + port + `/"}`, "the Redis of DTS"},
		"mapped":   {"http", `{"url":"http://[::ffff:127.0.0.1]:` + port + `/"}`, "the Redis of DTS"},
		"any":      {"http", `{"url":"http://0.0.0.0:` + port + `/"}`, "the Redis of DTS"},
		"other":    {"http", `{"url":"http://127.0.0.77:` + port + `/"}`, "the Redis of DTS"},
		"redirect": {"http", `{"method":"GET","url":"` + redirect.URL + `"}`, "the Redis of DTS"},
		"api":      {"http", `{"method":"GET","url":"http://` + r.address + `/healthz"}`, "the API of this node"},
		"profiles": {"http", `{"url":"http://` + r.debug.Addr().String() + `/"}`, "the profile server of this node"},
		"grpc":     {"grpc", `{"target":"` + redis.Addr() + `","method":"a.B/C","tls":{}}`, "the Redis of DTS"},
		"grpc-api": {"grpc", `{"target":"` + r.address + `","method":"a.B/C"}`, "the API of this node"},
	} {
		task := r.ended(name, c.kind, c.payload)
		if !strings.Contains(task, c.part+" listens there; --http-allow") || !strings.Contains(task, `"state":"failed"`) {
			t.Errorf("%s: got %s", name, task)
		}
	}
}

func TestApp_LetsTasksCallItsAPIIfToldTo(t *testing.T) {
	t.Parallel()
	c := settings(redistest.Start(t).URL())
	c.HTTPAllowAPI = true
	r := run(t, Options{Config: c})
	task := r.ended("health", "http", `{"method":"GET","url":"http://`+r.address+`/healthz"}`)
	if !strings.Contains(task, `"state":"succeeded"`) {
		t.Errorf("got %s", task)
	}
}

// A command of Redis is no method of HTTP.
func TestApp_RefusesCommandsOfRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := run(t, Options{Config: settings(redis.URL())})
	db := redis.DB(t)
	testkit.Must(t, db.Set(t.Context(), "victim", "hello", 0).Err())
	for _, method := range []string{"DEL", "MSET", "SET", "FLUSHALL", "UNLINK", "COPY", "EVAL"} {
		payload := fmt.Sprintf(`{"method":%q,"url":"http://%s/? victim x"}`, method, redis.Addr())
		status, body := r.call(http.MethodPost, "/v1/tasks", `{"type":"http","payload":`+payload+`}`)
		if status != http.StatusBadRequest || !strings.Contains(body, `"payload.method"`) {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
	if db.Get(t.Context(), "victim").Val() != "hello" {
		t.Error("the key is gone")
	}
}
