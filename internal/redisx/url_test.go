package redisx

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// Whoever mistypes a URL must not find a part of the password in the log.
func TestOpen_ShowsNoPartOfAPasswordItCannotRead(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"redis://secret:secr%et@h:1/0", "redis://u:secret/secret@h:1/0", "redis://:secret?secret@h:1",
		"redis://:12?secret@h:1", "redis://u:12?secret=1@h", "redis://u:secret", "redis://h:secret/0",
		"redis://secret@h:1x", "redis://secret@[h", "redis://secret@h h", "redis://u:p@h/secret@h",
		"redis+sentinel://u:secret/secret@a:1/m", "redis+sentinel://a:1/m?sentinel_password=secret%",
		"redis+cluster://u:secret/secret@a:1", "unix://u:secret/secret@/sock", "u:secret", "redis:/u:secret@h", "secret@h:1",
		"redis://h/0?password=secret", "redis://h/0?Password=secret", "redis://u:secret@h/x", "redis://u:secret@h?foo=bar",
		"redis://h/0?db=secret", "redis://h/0?dial_timeout=secret", "redis://h/0?pool_fifo=secret", "redis://h/secret",
		"redis://h/0?secret", "redis://h/0?secret&foo=bar", "redis://h/%secret", "redis://u:12/secret", "redis://h/0/secret",
		"redis+cluster://a:1/secret", "redis+cluster://a:1?addr=secret", "redis+sentinel://a:1/m/secret",
		"redis+sentinel://a:1/m?addr=secret", "secret", "secret://h:1", "http://h:1/secret", "unix://secret/run/s",
		"redis://:12?secret_file=1@h", "redis://:12?secret=1@h",
	} {
		client, err := newClient(Options{URL: raw})
		switch {
		case err == nil:
			t.Errorf("%s is accepted", raw)
			_ = client.Close()
		case strings.Contains(err.Error(), "sec"):
			t.Errorf("%s: the error is %s", raw, err)
		}
	}
}

func TestParse_ReadsAnAtInFilesAndNames(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dtsd@1")
	testkit.Must(t, os.WriteFile(file, []byte("secret"), 0o600))
	a, err := parse("redis://u@h/0?client_name=dtsd@1&password_file=" + file)
	testkit.Must(t, err)
	opt, err := a.single()
	testkit.Must(t, err)
	if opt.ClientName != "dtsd@1" || opt.Password != "secret" {
		t.Errorf("got the client name %q and the password %q", opt.ClientName, opt.Password)
	}
}

func TestParse_ReadsUserAndPassword(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][2]string{
		"redis://h":                  {"", ""},
		"redis://:p%40ss%2F@h":       {"", "p@ss/"},
		"redis://u:p#ss@h:1/0":       {"u", "p#ss"},
		"redis://u:12#4@h":           {"u", "12#4"},
		"redis://u:p[s s:@]@h":       {"u", "p[s s:@]"},
		"rediss://u%3A:p@[::1]:1":    {"u:", "p"},
		"unix://u:p@/run/redis.sock": {"u", "p"},
	} {
		a, err := parse(raw)
		testkit.Must(t, err)
		opt, err := a.single()
		testkit.Must(t, err)
		if got := [2]string{opt.Username, opt.Password}; got != want {
			t.Errorf("%s has user and password %q, want %q", raw, got, want)
		}
	}
}

func TestParse_ReadsPasswordsFromFiles(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "password")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	own, sentinels, empty := file("p@ss/w#rd?\n"), file("of sentinels\r\n"), file("\n")
	a, err := parse("redis://dtsd@h/0?password_file=" + own)
	testkit.Must(t, err)
	single, err := a.single()
	testkit.Must(t, err)
	if single.Username != "dtsd" || single.Password != "p@ss/w#rd?" {
		t.Errorf("a single server gets %q, %q", single.Username, single.Password)
	}
	a, err = parse("redis+sentinel://a:1/m?sentinel_password_file=" + sentinels + "&password_file=" + own)
	testkit.Must(t, err)
	failover, err := a.sentinel()
	testkit.Must(t, err)
	if failover.Password != "p@ss/w#rd?" || failover.SentinelPassword != "of sentinels" {
		t.Errorf("the primary gets %q, sentinels get %q", failover.Password, failover.SentinelPassword)
	}
	for raw, want := range map[string]string{
		"redis://:p@h?password_file=" + own:             "name one of them",
		"redis://h?password_file=" + empty:              "is empty",
		"redis://h?password_file=/no/such/file":         "no such file",
		"redis://h?sentinel_password_file=" + sentinels: "is for sentinels",
	} {
		if _, err := parse(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", raw, err, want)
		}
	}
}
