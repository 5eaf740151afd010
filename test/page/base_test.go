package page

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// Behind a reverse proxy that serves it below a path, all that a node serves works: pages with their assets, forms and
// streams, the reference of the API, and the monitor.
func TestBasePath_WorksBehindAProxy(t *testing.T) {
	t.Parallel()
	n := startNodeAt(t, "/tools/dts")
	n.shell("a", "exec sleep 600", nil)
	n.awaitState("a", "running")
	to, err := url.Parse(n.URL)
	testkit.Must(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		FlushInterval: -1,
	})
	t.Cleanup(proxy.Close)
	b := n.openTab()
	b.openURL(proxy.URL + "/tools/dts/")
	b.click(`nav a[data-key=t]`)
	b.await("#live", "Live")
	b.click(`#rows a`)
	b.await("#verdict", "Runs")
	b.click(`summary.red`)
	b.click(`form[action$="/cancel"] button`)
	b.await("[role=status].note", "was cancelled, or was asked to stop, at")
	b.await("#verdict", "Cancelled")
	b.expectNoProblem("the pages")
	b.click(`footer a[href$="/docs"]`)
	b.await("h1", "API")
	b.expectNoProblem("the reference")
	b.openURL(proxy.URL + "/tools/dts/monitor")
	b.await("main", "default")
	for _, asked := range eval[[]string](b, `performance.getEntries().map(e => e.name)`) {
		if strings.HasPrefix(asked, proxy.URL) && !strings.HasPrefix(asked, proxy.URL+"/tools/dts/") {
			t.Errorf("the monitor asks %s", asked)
		}
	}
}
