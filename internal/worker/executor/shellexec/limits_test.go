//go:build unix

package shellexec

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// limited is an attempt that runs a script under limits.
func limited(t *testing.T, script string, limits object) *executortest.Recorder {
	t.Helper()
	return executortest.NewRecorder(executortest.JSON(t, object{"command": []string{"/bin/sh", "-c", script}, "limits": limits}))
}

func needLimits(t *testing.T) {
	t.Helper()
	if !canLimit {
		t.Skip("this system cannot limit commands: that needs Linux")
	}
}

func TestExecutor_SetsLimitsBeforeTheCommandRuns(t *testing.T) {
	t.Parallel()
	needLimits(t)
	const script = `ulimit -d; ulimit -Hd; ulimit -t; ulimit -Ht; ulimit -n; ulimit -Hn`
	got, err := run(t, limited(t, script, object{"memory": "64MiB", "cpu_time": "1m30s", "open_files": 20}))
	if want := "65536\n65536\n90\n91\n20\n20"; err != nil || got != want {
		t.Errorf("the command has the limits %q, %v; want %q", got, err, want)
	}
	plain, err := exec.Command("/bin/sh", "-c", script).Output()
	testkit.Must(t, err)
	got, err = run(t, sh(t, script))
	if err != nil || got != strings.TrimSpace(string(plain)) {
		t.Errorf("without limits it has %q, %v; want those of the node, %q", got, err, plain)
	}
}

func TestExecutor_NamesTheLimitThatACommandExceeded(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	needLimits(t)
	for name, c := range map[string]struct {
		script string
		limits object
		want   []string
	}{
		"CPU time":               {`while :; do :; done`, object{"cpu_time": "1s"}, []string{"killed by signal 24", "; limits.cpu_time is 1s"}},
		"CPU time of a child":    {`sh -c 'while :; do :; done'; exit $?`, object{"cpu_time": "1s"}, []string{"exit status 152", "; limits.cpu_time is 1s"}},
		"CPU time, not heeded":   {`trap '' XCPU; while :; do :; done`, object{"cpu_time": "1s"}, []string{"killed by signal 9", "; limits.cpu_time is 1s"}},
		"memory":                 {`head -c 200000000 /dev/zero | tail`, object{"memory": "32MiB"}, []string{"exit status 1; limits.memory is 32MiB: ", "memory"}},
		"memory, without a word": {`kill -SEGV $$`, object{"memory": "32MiB"}, []string{"killed by signal 11", "; limits.memory is 32MiB"}},
		"open files": {
			`exec perl -e 'while (1) { open(my $f, "<", "/dev/null") or die "$!\n"; push @f, $f }'`,
			object{"open_files": 20}, []string{"; limits.open_files is 20: ", "oo many open files"},
		},
		"none of them": {`echo no >&2; exit 3`, object{"memory": "1GiB", "cpu_time": "1h", "open_files": 100}, []string{"exit status 3: no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("perl"); err != nil && name == "open files" {
				t.Skip("the command needs perl: ", err)
			}
			_, err := run(t, limited(t, c.script, c.limits))
			if err == nil || executor.IsPermanent(err) {
				t.Fatalf("error is %v, want one after which there may be another attempt", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error is %q, want %q in it", err, part)
				}
			}
			if name == "none of them" && strings.Contains(err.Error(), "limits") {
				t.Errorf("error is %q: no limit was exceeded", err)
			}
		})
	}
}

func TestExecutor_LimitsCommandsAsTheNodeSays(t *testing.T) {
	t.Parallel()
	needLimits(t)
	e := described(t, "--shell-max-memory=64MiB", "--shell-max-cpu-time=1m", "--shell-max-open-files=100")
	for name, c := range map[string]struct {
		limits object
		want   string
		final  string
	}{
		"if the payload says nothing": {nil, "65536 60 100", ""},
		"if it says less":             {object{"memory": "32MiB", "cpu_time": "10s", "open_files": 50}, "32768 10 50", ""},
		"more memory":                 {object{"memory": "65MiB"}, "", "payload.limits.memory: 65MiB is more than this node allows: --shell-max-memory is 64MiB"},
		"more CPU time":               {object{"cpu_time": "61s"}, "", "payload.limits.cpu_time: 1m1s is more than this node allows: --shell-max-cpu-time is 1m0s"},
		"more open files":             {object{"open_files": 101}, "", "payload.limits.open_files: 101 is more than this node allows: --shell-max-open-files is 100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := e.Execute(t.Context(), limited(t, `echo $(ulimit -d) $(ulimit -t) $(ulimit -n)`, c.limits).Attempt)
			switch {
			case c.final != "" && (err == nil || err.Error() != c.final || !executor.IsPermanent(err)):
				t.Errorf("error is %v, want finally %q", err, c.final)
			case c.final == "" && (err != nil || got != c.want):
				t.Errorf("limits are %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestExecutor_RunsCommandsUnderLimitsAsWithout(t *testing.T) {
	t.Parallel()
	needLimits(t)
	script := `echo "$MY_VAR $0"; cat; env | grep -c . >&2; exit 0`
	payload := func(limits object) *executortest.Recorder {
		return executortest.NewRecorder(executortest.JSON(t, object{
			"command": []string{"sh", "-c", script, "name"}, "stdin": "in", "env": object{"MY_VAR": "a", "my.var": "b"}, "limits": limits,
		}))
	}
	plain, under := payload(nil), payload(object{"open_files": 64})
	want, err := run(t, plain)
	testkit.Must(t, err)
	got, err := run(t, under)
	if err != nil || got != want || under.Lines["stderr"][0] != plain.Lines["stderr"][0] {
		t.Errorf("got %q, %q, %v; want %q, %q", got, under.Lines["stderr"], err, want, plain.Lines["stderr"])
	}
	_, err = run(t, executortest.NewRecorder(`{"command": ["/no/such/program"], "limits": {"open_files": 64}}`))
	if err == nil || !strings.Contains(err.Error(), "cannot start the command") {
		t.Errorf("a missing program: %v", err)
	}
}

func TestExecutor_RefusesLimitsWhereThereAreNone(t *testing.T) {
	t.Parallel()
	if canLimit {
		t.Skip("this system can limit commands")
	}
	if _, err := run(t, limited(t, "true", object{"open_files": 64})); !executor.IsPermanent(err) {
		t.Errorf("error is %v, want a final one", err)
	}
	if err := (&limits{files: 64}).Validate(); err == nil {
		t.Error("the setting is valid")
	}
}

func TestSettings_RefuseLimitsThatAreNone(t *testing.T) {
	t.Parallel()
	needLimits(t)
	for arg, want := range map[string]string{
		"--shell-max-memory=2GiB":      "",
		"--shell-max-memory=":          "",
		"--shell-max-memory=512KiB":    "shell-max-memory: 512KiB must be 1MiB to 1024TiB",
		"--shell-max-cpu-time=90s":     "",
		"--shell-max-cpu-time=1500ms":  "shell-max-cpu-time: 1.5s is not a whole number of seconds",
		"--shell-max-cpu-time=-1s":     "shell-max-cpu-time: -1s must be 1s to 8760h0m0s",
		"--shell-max-open-files=15":    "shell-max-open-files: 15 must be 16 to 1048576",
		"--shell-max-open-files=-1":    "shell-max-open-files: -1 must be 16 to 1048576",
		"--shell-users=nobody,a:b":     `shell-users: "a:b" is not the name of a user, such as nobody`,
		"--shell-users=nobody":         "",
		"--shell-users=":               "",
		"--shell-max-open-files=65536": "",
	} {
		d := Describe()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		d.Settings.Declare(flags)
		testkit.Must(t, flags.Parse([]string{arg}))
		if err := d.Settings.Validate(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}

// described is an executor on a node with these settings.
func described(t *testing.T, settings ...string) executor.Executor {
	t.Helper()
	return describedWith(t, executor.Options{}, settings...)
}

func describedWith(t *testing.T, o executor.Options, settings ...string) executor.Executor {
	t.Helper()
	d := Describe()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	d.Settings.Declare(flags)
	testkit.Must(t, flags.Parse(append(settings, "--shell-grace="+time.Minute.String())))
	testkit.Must(t, d.Settings.Validate())
	e, err := d.New(o)
	testkit.Must(t, err)
	return e
}
