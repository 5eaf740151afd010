package api

import (
	"encoding/json"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestListNamespaces_AreThoseSubmittedTo(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	if got := r.call("GET", "/v1/namespaces", ""); string(got.body) != "{\"namespaces\":[]}\n" {
		t.Errorf("before the first submission: %s", got.body)
	}
	for _, path := range []string{"/v1/tasks?namespace=b", "/v1/tasks", "/v1/tasks?namespace=a", "/v1/tasks?namespace=a"} {
		if got := r.call("POST", path, `{"type":"http"}`); got.status != 201 {
			t.Fatalf("%s: status %d, %s", path, got.status, got.body)
		}
	}
	if got := r.call("POST", "/v1/tasks?namespace=refused", `{"type":"http","delay":"-1s"}`); got.status != 400 {
		t.Errorf("status %d, %s", got.status, got.body)
	}
	var list wire.NamespaceList
	testkit.Must(t, json.Unmarshal(r.call("GET", "/v1/namespaces", "").body, &list))
	var names string
	for _, n := range list.Namespaces {
		names += n.Name + " "
		if n.LastSubmittedAt.IsZero() {
			t.Errorf("%s has no time", n.Name)
		}
	}
	if names != "a b default " {
		t.Errorf("listed %q", names)
	}
}
