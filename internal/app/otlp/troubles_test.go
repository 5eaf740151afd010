package otlp

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
)

// A header without "=" is a mistake that people make. Its value may be a secret.
func TestStart_LogsBadHeadersWithoutTheirValues(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Bearer s3cr3t-token")
	s := begin(t, "http://127.0.0.1:1", time.Second)
	testkit.Must(t, s.stop())
	if s.log.Count("parse headers") == 0 || s.log.Count("s3cr3t") > 0 {
		t.Error("the log says nothing of the headers, or says the secret")
	}
}
