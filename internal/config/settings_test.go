package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/config"
)

// load puts a Config together as a command does.
func load(t *testing.T, args, environ []string) (config.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("dtsd", pflag.ContinueOnError)
	fs.Bool("demo", false, "a flag of the command's own")
	settings := config.Bind(fs, config.Default())
	if err := fs.Parse(args); err != nil {
		return config.Config{}, err
	}
	return settings.Load(environ)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dtsd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefault_IsValid(t *testing.T) {
	c, err := load(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), c); diff != "" {
		t.Errorf("nothing set (-default +got):\n%s", diff)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestLoad_FlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	for _, kind := range []struct {
		setting, flag, env, file string // three values of one setting
		read                     func(config.Config) any
	}{
		{"listen", "h:1", "h:2", "h:3", func(c config.Config) any { return c.Listen }},
		{"concurrency", "11", "12", "13", func(c config.Config) any { return c.Concurrency }},
		{"lease-ttl", "1s", "2s", "3s", func(c config.Config) any { return c.LeaseTTL }},
		{"monitor", "false", "false", "false", func(c config.Config) any { return c.Monitor }},
		{"roles", "api", "worker", "scheduler", func(c config.Config) any { return c.Roles }},
		{"queues", "a=1", "b=2", "c=3", func(c config.Config) any { return c.Queues }},
		{"labels", "a=1", "b=2", "c=3", func(c config.Config) any { return c.Labels }},
		{"pool", "x:1:a=1", "y:1:a=1", "z:1:a=1", func(c config.Config) any { return c.Pools }},
		{"log-level", "DEBUG", "WARN", "ERROR", func(c config.Config) any { return c.LogLevel }},
		{"redis", "redis://a", "redis://b", "redis://c", func(c config.Config) any { return string(c.Redis) }},
	} {
		for given := range 8 { // every set of sources
			var args, environ []string
			want := fmt.Sprint(kind.read(config.Default()))
			if given&1 != 0 {
				want = kind.file
				environ = append(environ, "DTS_CONFIG="+write(t, kind.setting+": "+kind.file))
			}
			if given&2 != 0 {
				want = kind.env
				environ = append(environ, "DTS_"+strings.ToUpper(strings.ReplaceAll(kind.setting, "-", "_"))+"="+kind.env)
			}
			if given&4 != 0 {
				want = kind.flag
				args = append(args, "--"+kind.setting+"="+kind.flag)
			}
			c, err := load(t, args, environ)
			if err != nil {
				t.Fatalf("%s: %v", kind.setting, err)
			}
			if got := kind.read(c); fmt.Sprint(got) != want {
				t.Errorf("%s from %v %v: %v, want %s", kind.setting, args, environ, got, want)
			}
		}
	}
}

func TestLoad_ConfigFlagBeatsItsEnvironment(t *testing.T) {
	c, err := load(t, []string{"--config", write(t, "prefix: flag")}, []string{"DTS_CONFIG=" + write(t, "prefix: env")})
	if err != nil {
		t.Fatal(err)
	}
	if c.Prefix != "flag" {
		t.Errorf("prefix is %q, want that of the file named by the flag", c.Prefix)
	}
}

func TestLoad_ReadsEveryYAMLFormOfASetting(t *testing.T) {
	c, err := load(t, []string{"--config", write(t, `
redis: "redis://:secret@h:1/2"
roles: [scheduler, api]
queues: {urgent: 9, slow: 1}
labels: {zone: eu, gpu: 2, spot: ""}
pool:
  - "reports:2:reports=1"
  - "mail:4:mail=2,news=1"
lease_ttl: 5s
drain-timeout: 1m30s
monitor: false
log-level: debug
`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Redis = "redis://:secret@h:1/2"
	want.Roles = config.Roles{"scheduler", "api"}
	want.Queues = config.Queues{"urgent": 9, "slow": 1}
	want.Labels = config.Labels{"zone": "eu", "gpu": "2", "spot": ""}
	want.Pools = config.Pools{
		{Name: "reports", Concurrency: 2, Queues: config.Queues{"reports": 1}},
		{Name: "mail", Concurrency: 4, Queues: config.Queues{"mail": 2, "news": 1}},
	}
	want.LeaseTTL, want.DrainTimeout = 5*time.Second, 90*time.Second
	want.Monitor = false
	want.LogLevel = slog.LevelDebug
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad_PoolFlagMayBeRepeated(t *testing.T) {
	c, err := load(t, []string{"--pool", "a:1:x", "--pool", "b:2:y=3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Pools.String(); got != "a:1:x=1;b:2:y=3" {
		t.Errorf("pools are %s", got)
	}
	all := c.AllPools()
	if len(all) != 3 || all[0].Name != config.DefaultPool || all[0].Concurrency != c.Concurrency {
		t.Errorf("all pools are %v, want the default one first", all)
	}
}

func TestLoad_ErrorsNamePlaceAndSettingAndASimilarOne(t *testing.T) {
	for _, c := range []struct {
		name, arg, env, file string
		want                 []string
	}{
		{"unknown key", "", "", "prefix: x\nlisen: h:1", []string{"dtsd.yaml", "line 2", "lisen", "did you mean listen?"}},
		{"unknown key like none", "", "", "frobnicate: 1", []string{"no setting frobnicate"}},
		{"config within the file", "", "", "config: other.yaml", []string{"no setting config"}},
		{"key set twice", "", "", "lease-ttl: 1s\nlease_ttl: 2s", []string{"line 2", "lease_ttl is set twice"}},
		{"no value", "", "", "listen:", []string{"listen", "has no value"}},
		{"not a mapping", "", "", "- listen", []string{"line 1", "name: value"}},
		{"nested too deep", "", "", "queues: {a: {b: 1}}", []string{"queues", "plain values"}},
		{"not YAML", "", "", "a: b: c", []string{"dtsd.yaml", "yaml"}},
		{"wrong value in the file", "", "", "concurrency: many", []string{`dtsd.yaml: concurrency: "many" must be a whole number`}},
		{"wrong value in the environment", "", "DTS_LEASE_TTL=7", "", []string{`DTS_LEASE_TTL: "7" must be a duration with its unit`}},
		{"neither true nor false", "", "DTS_MONITOR=perhaps", "", []string{`DTS_MONITOR: "perhaps" must be true or false`}},
		{"wrong log level", "", "DTS_LOG_LEVEL=inof", "", []string{`DTS_LOG_LEVEL: "inof" must be debug, info, warn or error`}},
		{"wrong value of a flag", "--queues=a=x", "", "", []string{"--queues", "queue \"a\"", "not a whole number"}},
		{"no partitions", "--partitions=0", "", "", []string{"--partitions", "must be a whole number from 1 to 1024; leave it out"}},
		{"no partitions in the environment", "", "DTS_PARTITIONS=0", "", []string{`DTS_PARTITIONS: "0" must be a whole`}},
		{"no partitions in the file", "", "", "partitions: 0", []string{`dtsd.yaml: partitions: "0" must be a whole`}},
		{"too many partitions", "--partitions=1025", "", "", []string{"--partitions", "must be a whole number from 1 to 1024"}},
		{"wrong pool", "--pool=a", "", "", []string{"--pool", "NAME:CONCURRENCY:QUEUE=WEIGHT"}},
		{"unknown variable", "", "DTS_REDSI=redis://h", "", []string{"DTS_REDSI", "did you mean DTS_REDIS?"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var args []string
			if c.arg != "" {
				args = append(args, c.arg)
			}
			if c.file != "" {
				args = append(args, "--config", write(t, c.file))
			}
			_, err := load(t, args, []string{c.env})
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestLoad_RefusesAMissingFile(t *testing.T) {
	if _, err := load(t, []string{"--config", filepath.Join(t.TempDir(), "none.yaml")}, nil); err == nil {
		t.Error("no error")
	}
}

func TestLoad_IgnoresVariablesOfOthers(t *testing.T) {
	c, err := load(t, nil, []string{
		"DTSCTL_SERVER=http://h", "PATH=/bin", "DTS_LISTEN=", "odd",
		"DTS_SERVICE_HOST=10.0.0.1", "DTS_SERVICE_PORT=80", "DTS_SERVICE_PORT_HTTP=80", "DTS_PORT=tcp://10.0.0.1:80",
		"DTS_PORT_80_TCP=tcp://10.0.0.1:80", "DTS_PORT_80_TCP_ADDR=10.0.0.1", "DTS_API_SERVICE_HOST=10.0.0.2",
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), c); diff != "" {
		t.Errorf("(-default +got):\n%s", diff)
	}
}

// greeting is a section with one setting.
type greeting struct{ text string }

func (g *greeting) Declare(flags *pflag.FlagSet) {
	flags.StringVar(&g.text, "echo-greeting", "hello", "what to say first")
	flags.Lookup("echo-greeting").Annotations = map[string][]string{config.EmptyCounts: {}}
}

func (g *greeting) Validate() error {
	if g.text == "" {
		return errors.New("echo-greeting: must not be empty")
	}
	return nil
}

func bind(args ...string) (*config.Settings, *greeting, error) {
	fs := pflag.NewFlagSet("dtsd", pflag.ContinueOnError)
	g := &greeting{}
	settings := config.Bind(fs, config.Default(), g)
	return settings, g, fs.Parse(args)
}

func TestLoad_FindsTheSettingsOfASectionInEverySource(t *testing.T) {
	for name, c := range map[string]struct {
		args, environ []string
		want          string
	}{
		"default":     {nil, nil, "hello"},
		"flag":        {[]string{"--echo-greeting=flag"}, []string{"DTS_ECHO_GREETING=env"}, "flag"},
		"environment": {nil, []string{"DTS_ECHO_GREETING=env"}, "env"},
		"file":        {[]string{"--config", write(t, "echo_greeting: file")}, nil, "file"},

		"an empty variable, which counts": {nil, []string{"DTS_ECHO_GREETING="}, ""},
	} {
		settings, g, err := bind(c.args...)
		if err == nil {
			_, err = settings.Load(c.environ)
		}
		if err != nil || g.text != c.want {
			t.Errorf("%s: %q, %v, want %q", name, g.text, err, c.want)
		}
	}
	settings, _, _ := bind()
	if _, err := settings.Load([]string{"DTS_ECHO_GREETIGN=x"}); err == nil || !strings.Contains(err.Error(), "did you mean DTS_ECHO_GREETING?") {
		t.Errorf("a misspelled setting: %v", err)
	}
}

func TestSettings_ValidateChecksTheConfigAndItsSections(t *testing.T) {
	settings, _, err := bind("--echo-greeting=", "--concurrency=0")
	if err == nil {
		_, err = settings.Load(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = settings.Validate()
	if err == nil || !strings.Contains(err.Error(), "concurrency:") || !strings.Contains(err.Error(), "echo-greeting:") {
		t.Errorf("error is %v, want one that names concurrency and echo-greeting", err)
	}
}
