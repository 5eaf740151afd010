package otlp

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

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
		u, err := s.target()
		testkit.Must(t, err)
		if got := u.String(); s.Validate() != nil || got != want {
			t.Errorf("%s: %q, want %q", endpoint, got, want)
		}
	}
}

func TestSettings_RefuseBadValues(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		flag, want string
	}{
		"no scheme":      {"--otlp-endpoint=h:4318/secret", "otlp-endpoint: must be a URL as http://127.0.0.1:4318"},
		"another scheme": {"--otlp-endpoint=grpc://h:4317/secret", "otlp-endpoint: must be a URL as"},
		"no host":        {"--otlp-endpoint=http:///secret", "otlp-endpoint: must be a URL as"},
		"a query":        {"--otlp-endpoint=http://h/?token=secret", "otlp-endpoint: must be a URL as"},
		"a user":         {"--otlp-endpoint=http://ann:secret@h:4318", "otlp-endpoint: must have no user"},
		"a broken user":  {"--otlp-endpoint=http://ann:se%cret@h:4318", "otlp-endpoint: must be a URL as"},
		"no such port":   {"--otlp-endpoint=http://h:99999/secret", "otlp-endpoint: must have a port from 1 to 65535"},
		"port 0":         {"--otlp-endpoint=http://h:0", "otlp-endpoint: must have a port from 1 to 65535"},
		"less than 0":    {"--trace-sample=-0.1", "--trace-sample\" flag: must be a number from 0 to 1"},
		"more than 1":    {"--trace-sample=100", "must be a number from 0 to 1"},
		"not a number":   {"--trace-sample=NaN", "must be a number from 0 to 1"},
		"a word":         {"--trace-sample=abc", "must be a number from 0 to 1"},
	} {
		var s Settings
		flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
		s.Declare(flags)
		err := flags.Parse([]string{row.flag})
		if err == nil {
			err = s.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
	if s := (&Settings{sample: 1}); s.Validate() != nil || s.On() || (*Settings)(nil).On() {
		t.Error("without an endpoint, traces are on")
	}
}
