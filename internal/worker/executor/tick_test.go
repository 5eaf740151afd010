package executor

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// A handler learns which time it runs for, and not only when.
func TestTheTickOfAScheduleIsTold(t *testing.T) {
	for id, want := range map[string]string{
		"job-1":                                     "",
		"nightly@20260102T150405Z":                  "2026-01-02T15:04:05.000Z",
		"nightly@20260102T150405.250Z":              "2026-01-02T15:04:05.250Z",
		"nightly@20260102T150405.250123Z-manual":    "2026-01-02T15:04:05.250Z",
		"nightly@something-that-no-schedule-writes": "",
	} {
		t.Run(id, func(t *testing.T) {
			told := make(chan string, 1)
			far := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("Dts-Tick") }))
			defer far.Close()
			r := newRecorder(mustJSON(t, object{"url": far.URL}))
			r.ID = id
			if _, err := NewHTTP(HTTPOptions{}).Execute(t.Context(), r.Attempt); err != nil {
				t.Fatal(err)
			}
			if got := <-told; got != want {
				t.Errorf("the header is %q, want %q", got, want)
			}
			r = newRecorder(mustJSON(t, object{"command": []string{"env"}}))
			r.ID = id
			if _, err := run(t, r); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(r.lines["stdout"], "DTS_TICK="+want); got != (want != "") {
				t.Errorf("the environment is %q", r.lines["stdout"])
			}
		})
	}
}
