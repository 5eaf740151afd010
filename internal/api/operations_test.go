package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

// beside are the routes that are not in the document, and their operations.
var beside = map[string]string{
	metricsPath: "metrics", metricsPath + "/*": "metrics", monitorPath: "monitor", monitorPath + "/*": "monitor",
	docsPath: "docs", docsPath + "/*": "docs",
}

// Each route and each operation of the document is in the table of operations, and each row of the table has a route.
func TestRoutes_AreInTheTableOfOperations(t *testing.T) {
	t.Parallel()
	nothing := http.NotFoundHandler()
	r := startRig(t, func(o *rigOptions) { o.Metrics, o.Monitor, o.Docs = nothing, nothing, nothing })
	d, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{} // operations by method and path
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			documented[method+" "+routeOf(path)] = op.OperationID
		}
	}
	served := map[string]bool{}
	for _, route := range r.server.Echo().Routes() {
		if route.Method == "echo_route_not_found" {
			continue
		}
		name := beside[route.Path]
		if name == "" {
			name = documented[strings.Replace(route.Method, http.MethodHead, http.MethodGet, 1)+" "+route.Path]
		}
		o, ok := control.OperationNamed(name)
		if !ok {
			t.Errorf("%s %s is operation %q, which is not in the table", route.Method, route.Path, name)
		}
		looks := strings.HasSuffix(route.Path, "/preview") // at what its body says
		changes := route.Method != http.MethodGet && route.Method != http.MethodHead && !looks
		if name != "monitor" && beside[route.Path] == "" && o.Changes != changes {
			t.Errorf("%s %s: the table says of %s that it changes something: %v", route.Method, route.Path, name, o.Changes)
		}
		served[name] = true
	}
	for route, name := range documented {
		if !served[name] {
			t.Errorf("%s (%s) is in the document, and not served", route, name)
		}
	}
	for _, o := range control.Operations() {
		if !served[o.Name] {
			t.Errorf("no route leads to %s", o.Name)
		}
	}
}

// A member that no code knows would do nothing.
func TestDocument_SaysOfAnswersWhatIsKnown(t *testing.T) {
	t.Parallel()
	doc, err := Document()
	testkit.Must(t, err)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			changes := method != http.MethodGet
			switch kind := op.Extensions[answerExtension]; {
			case kind == nil, kind == answerPage && !changes, kind == answerSmall && changes, kind == answerGuarded && changes:
			default:
				t.Errorf("%s %s: %s is %v", method, path, answerExtension, kind)
			}
			if costly := op.Extensions[costlyExtension]; costly != nil && costly != true {
				t.Errorf("%s %s: %s is %v", method, path, costlyExtension, costly)
			}
		}
	}
}

// Other tests send these examples.
func TestDocument_HasAnExampleOfEachBody(t *testing.T) {
	t.Parallel()
	doc, err := Document()
	testkit.Must(t, err)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			body := op.RequestBody.Value.Content.Get(jsonType)
			raw, err := json.Marshal(body.Example)
			testkit.Must(t, err)
			if err := checkBody(body.Schema.Value, raw); err != nil {
				t.Errorf("%s %s: the example %s: %v", method, path, raw, err)
			}
		}
	}
}
