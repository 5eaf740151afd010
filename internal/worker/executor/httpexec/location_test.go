package httpexec

import (
	"net/http"
	"strings"
	"testing"
)

func TestExecutor_ShowsNoPasswordOfALocation(t *testing.T) {
	t.Parallel()
	url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://user:secret@h/")
		w.WriteHeader(http.StatusMultipleChoices)
	})
	_, err := execute(t, newExecutor(t), map[string]any{"url": url})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "to http://xxxxx@h/") {
		t.Errorf("error is %v", err)
	}
}
