package edge

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
)

// seen answers with the path that a handler sees.
func seen(c echo.Context) error { return c.String(http.StatusOK, c.Request().URL.EscapedPath()) }

func startBasedRig(t *testing.T) *rig {
	t.Helper()
	handlers := map[string]echo.HandlerFunc{
		"/": seen, "/seen/:id": seen, "/health": seen,
		"/moved":     func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/seen/a?b=c") },
		"/moved/off": func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "//other.example/a") },
		"/moved/on":  func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "../docs") },
	}
	r := startRig(t, handlers, func(o *Options) { o.BasePath = "/tools/dts" })
	r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r.server.SetPolicy(Policy{Always: true}, "/health")
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		}
		_, _ = w.Write([]byte(r.URL.Path))
	})
	r.server.Mount("/mounted", Below("/tools/dts", page))
	return r
}

func TestBasePath_IsInFrontOfAllPaths(t *testing.T) {
	r := startBasedRig(t)
	for path, want := range map[string]struct {
		status   int
		body     string // what the handler sees
		location string
	}{
		"/tools/dts/":           {http.StatusOK, "/", ""},
		"/tools/dts":            {http.StatusOK, "/", ""},
		"/tools/dts/seen/a":     {http.StatusOK, "/seen/a", ""},
		"/tools/dts/seen/a%2Fb": {http.StatusOK, "/seen/a%2Fb", ""},
		"/tools/dts/health":     {http.StatusOK, "/health", ""},
		"/health":               {http.StatusOK, "/health", ""},
		"/tools/dts/mounted/a":  {http.StatusOK, "/tools/dts/mounted/a", ""},
		"/tools/dts/mounted/a?to=/tools/dts/mounted/b": {http.StatusSeeOther, "", "/tools/dts/mounted/b"},
		"/tools/dts/mounted/a?to=/tools/dts":           {http.StatusSeeOther, "", "/tools/dts/"},
		"/tools/dts/mounted/a?to=b?c":                  {http.StatusSeeOther, "", "/tools/dts/mounted/b?c"},
		"/tools/dts/mounted/a?to=//other.example/":     {http.StatusSeeOther, "", "//other.example/"},
		"/":                       {http.StatusFound, "", "/tools/dts/"},
		"/tools/dts/moved":        {http.StatusSeeOther, "", "/tools/dts/seen/a?b=c"},
		"/tools/dts/moved/off":    {http.StatusSeeOther, "", "//other.example/a"},
		"/tools/dts/moved/on":     {http.StatusSeeOther, "", "../docs"},
		"/seen/a":                 {http.StatusNotFound, "", ""},
		"/mounted/a":              {http.StatusNotFound, "", ""},
		"/tools":                  {http.StatusNotFound, "", ""},
		"/tools/dtsd/seen/a":      {http.StatusNotFound, "", ""},
		"/tools/dts/tools/dts/":   {http.StatusNotFound, "", ""},
		"/tools/dts/nowhere":      {http.StatusNotFound, "", ""},
		"/tools%2Fdts/seen/a":     {http.StatusNotFound, "", ""},
		"/other/tools/dts/seen/a": {http.StatusNotFound, "", ""},
	} {
		got := r.call(http.MethodGet, path, "")
		if got.status != want.status || got.header.Get("Location") != want.location {
			t.Errorf("%s: %d to %q, want %d to %q", path, got.status, got.header.Get("Location"), want.status, want.location)
		}
		if want.body != "" && string(got.body) != want.body {
			t.Errorf("%s: the handler sees %q, want %q", path, got.body, want.body)
		}
		if want.status == http.StatusNotFound {
			got.problem(t)
		}
	}
}
