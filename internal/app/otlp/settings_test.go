package otlp

import (
	"math"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestSettings_FindWhereTracesGo(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:4318":             "http://127.0.0.1:4318/v1/traces",
		"https://collector.example/":        "https://collector.example/v1/traces",
		"https://collector.example/in/here": "https://collector.example/in/here",
		"http://[::1]:4318":                 "http://[::1]:4318/v1/traces",
	} {
		s := Settings{endpoint: endpoint, sample: 1}
		got, err := s.target()
		if err != nil || s.Validate() != nil || got != want {
			t.Errorf("%s: %q, error %v, want %q", endpoint, got, err, want)
		}
	}
}

func TestSettings_RefuseBadValues(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		s    Settings
		want string
	}{
		"no scheme":      {Settings{endpoint: "h:4318", sample: 1}, `otlp-endpoint: "h:4318" must be a URL as`},
		"another scheme": {Settings{endpoint: "grpc://h:4317", sample: 1}, `otlp-endpoint: "grpc://h:4317" must be a URL`},
		"no host":        {Settings{endpoint: "http://", sample: 1}, "otlp-endpoint:"},
		"a query":        {Settings{endpoint: "http://h/?token=secret", sample: 1}, "otlp-endpoint:"},
		"a user":         {Settings{endpoint: "http://ann:secret@h:4318", sample: 1}, "otlp-endpoint: must have no user"},
		"a broken user":  {Settings{endpoint: "http://ann:se%cret@h:4318", sample: 1}, "otlp-endpoint:"},
		"less than 0":    {Settings{endpoint: "", sample: -0.1}, "trace-sample: -0.1 must be 0 to 1"},
		"more than 1":    {Settings{endpoint: "http://h", sample: 100}, "trace-sample: 100 must be 0 to 1"},
		"no number":      {Settings{endpoint: "http://h", sample: math.NaN()}, "trace-sample: NaN must be 0 to 1"},
	} {
		err := row.s.Validate()
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
	if s := (&Settings{sample: 1}); s.Validate() != nil || s.On() || (*Settings)(nil).On() {
		t.Error("without an endpoint, traces are on")
	}
}
