package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// The list has the nodes that match a selector.
func TestNodes_AreSelected(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	db := server.DB(t)
	keys := openStore(t, db).Keys
	observer := cluster.NewObserver(cluster.Options{
		DB: db, Key: keys.Nodes(), Cordons: keys.Cordons(), Channel: keys.Members(),
	})
	t.Cleanup(observer.Close)
	for id, zone := range map[string]string{"n1": "eu", "n2": "us"} {
		entry := `99999999999999 {"name":"vm","state":"alive","roles":["worker"],"started_at":"2026-01-02T15:04:05Z",` +
			`"labels":{"zone":"` + zone + `"}}`
		testkit.Must(t, db.HSet(t.Context(), string(keys.Nodes()), id, entry).Err())
	}
	b, useCases := startBackendOn(t, server, func(o *control.Options) { o.Nodes, o.Cordons = observer, observer })
	r := startRigOn(t, b, useCases)
	for selector, want := range map[string]string{
		"": "n1 n2", "zone=us": "n2", "zone+in+(eu,us)": "n1 n2", "role=worker,!zone": "", "id=n1": "n1",
	} {
		got := r.call("GET", "/v1/nodes?select="+selector, "")
		var list wire.NodeList
		if err := json.Unmarshal(got.body, &list); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", selector, got.status, got.body, err)
		}
		var ids []string
		for _, n := range list.Nodes {
			ids = append(ids, n.ID)
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("%s: %q, want %q", selector, ids, want)
		}
	}
	p := r.call("GET", "/v1/nodes?select=a%20b", "").problem(t)
	if p.Code != wire.Invalid || wire.Value(p.Field) != "select" {
		t.Errorf("no selector: %+v", p)
	}
}

// A cordon of a name is that of all nodes which have it, and the list of nodes shows it.
func TestNodes_AreCordonedAndUncordoned(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	db := server.DB(t)
	keys := openStore(t, db).Keys
	observer := cluster.NewObserver(cluster.Options{
		DB: db, Key: keys.Nodes(), Cordons: keys.Cordons(), Channel: keys.Members(),
	})
	t.Cleanup(observer.Close)
	const entry = `99999999999999 {"name":"vm","state":"alive","roles":["worker"],"started_at":"2026-01-02T15:04:05Z"}`
	testkit.Must(t, db.HSet(t.Context(), string(keys.Nodes()), "n1", entry).Err())
	b, useCases := startBackendOn(t, server, func(o *control.Options) { o.Nodes, o.Cordons = observer, observer })
	r := startRigOn(t, b, useCases)
	listed := func(method, path, body string) []wire.Node {
		t.Helper()
		got := r.call(method, path, body)
		var list wire.NodeList
		if err := json.Unmarshal(got.body, &list); err != nil || got.status != http.StatusOK || len(list.Nodes) != 1 {
			t.Fatalf("%s %s: %d %s, %v", method, path, got.status, got.body, err)
		}
		return list.Nodes
	}
	listed("POST", "/v1/nodes/vm/cordon", `{"note":"a new kernel","for":"1h","drain":true}`)
	c := listed("GET", "/v1/nodes", "")[0].Cordon
	if c == nil || c.Of != "vm" || wire.Value(c.Note) != "a new kernel" || c.Until == nil || !wire.Value(c.Drain) ||
		c.Until.Sub(c.Since.Time) != time.Hour {
		t.Errorf("the cordon is %+v", c)
	}
	if n := listed("POST", "/v1/nodes/vm/uncordon", "")[0]; n.Cordon != nil {
		t.Errorf("afterwards, the cordon is %+v", n.Cordon)
	}
	for path, code := range map[string]wire.ProblemCode{
		"/v1/nodes/gone/cordon": wire.NodeNotFound, "/v1/nodes/gone/uncordon": wire.NodeNotFound,
	} {
		if p := r.call("POST", path, "").problem(t); p.Code != code {
			t.Errorf("%s: %+v", path, p)
		}
	}
	p := r.call("POST", "/v1/nodes/vm/cordon", `{"for":"10ms"}`).problem(t)
	if p.Code != wire.Invalid || wire.Value(p.Field) != "for" {
		t.Errorf("for 10ms: %+v", p)
	}
}
