package shellexec

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

const rerunTest = "DTS_TEST_RUNS_AS_NOBODY"

// rerun runs the test once more, in a process of nobody with only these capabilities, which it passes on to what it starts.
func rerun(t *testing.T, capabilities []uintptr) {
	t.Helper()
	u, err := user.Lookup(other)
	testkit.Must(t, err)
	id, err := strconv.ParseUint(u.Uid, 10, 32)
	testkit.Must(t, err)
	self, err := os.Open(os.Args[0]) // in a folder that only this user may enter
	testkit.Must(t, err)
	defer func() { _ = self.Close() }()
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.ExtraFiles, cmd.Env = "/", []*os.File{self}, append(os.Environ(), rerunTest+"=1", "HOME=/nonexistent")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}, AmbientCaps: capabilities}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as %s: %v\n%s", other, err, out)
	}
}

func TestExecutor_NeedsPrivilegeToRunAsAnotherUser(t *testing.T) {
	t.Parallel()
	if maySwitch() {
		rerun(t, nil)
		return
	}
	_, err := New(Options{Users: []string{"root"}}).Execute(t.Context(), as(t, "root", "true").Attempt)
	if want := "payload.user: this node cannot run commands as root: that needs " + switchNeeds; err == nil || err.Error() != want || !executor.IsPermanent(err) {
		t.Errorf("error is %v, want finally %q", err, want)
	}
}

func TestExecutor_StopsACommandOfAnotherUser(t *testing.T) {
	t.Parallel()
	needSwitch(t)
	wantStopped(t, described(t, "--shell-users="+other), as(t, other, `echo $$; while :; do sleep 1000; done`))
}

// A service of systemd can have AmbientCapabilities in place of being root.
func TestExecutor_PassesNoCapabilityOnToAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getenv(rerunTest) == "" {
		needSwitch(t)
		rerun(t, switching)
		return
	}
	const script = `id -un; grep -E 'Cap(Eff|Prm|Amb)' /proc/self/status`
	got, err := described(t, "--shell-users=daemon").Execute(t.Context(), as(t, "daemon", script).Attempt)
	testkit.Must(t, err)
	if strings.Count(got, "\t0000000000000000") != 3 || !strings.HasPrefix(got, "daemon\n") {
		t.Errorf("the command has capabilities:\n%s", got)
	}
	wantStopped(t, described(t, "--shell-users=daemon"), as(t, "daemon", `echo $$; while :; do sleep 1000; done`))
	plain, err := described(t).Execute(t.Context(), as(t, "", script).Attempt)
	if err != nil || strings.Contains(plain, "CapAmb:\t0000000000000000") {
		t.Errorf("the node has kept none of its own: %v\n%s", err, plain)
	}
}

func TestExecutor_LimitsCommandsOfAnotherUser(t *testing.T) {
	t.Parallel()
	needSwitch(t)
	const user = "daemon" // this one is nobody, when it runs again
	r := executortest.NewRecorder(`{"command": ["/bin/sh", "-c", "id -un; ulimit -n"], "user": "daemon", "dir": "/", "limits": {"open_files": 64}}`)
	got, err := described(t, "--shell-users="+user).Execute(t.Context(), r.Attempt)
	if !hasSysResource(t) {
		const want = "cannot start the command: limits.open_files: this node cannot limit commands that run as another user: that needs the capability CAP_SYS_RESOURCE"
		if err == nil || err.Error() != want || !executor.IsPermanent(err) {
			t.Errorf("error is %v, want finally %q", err, want)
		}
		return
	}
	if err != nil || got != user+"\n64" {
		t.Errorf("got %q, %v", got, err)
	}
	if os.Getenv(rerunTest) == "" {
		rerun(t, switching)
		rerun(t, append(slices.Clone(switching), unix.CAP_SYS_RESOURCE))
	}
}

// switching are the capabilities that a node needs to run commands as other users.
var switching = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}

// warningsOf returns what a node with these settings logs when it starts.
func warningsOf(t *testing.T, settings ...string) string {
	t.Helper()
	var log bytes.Buffer
	describedWith(t, executor.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, settings...)
	return log.String()
}

// refusalOf returns why a node with these settings does not start.
func refusalOf(t *testing.T, settings ...string) string {
	t.Helper()
	d := Describe()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	d.Settings.Declare(flags)
	testkit.Must(t, flags.Parse(settings))
	testkit.Must(t, d.Settings.Validate())
	e, err := d.New(executor.Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil || e != nil {
		t.Fatalf("a node with %q starts", settings)
	}
	return err.Error()
}

func TestDescribe_RefusesUsersAsWhomNoCommandCanRun(t *testing.T) {
	t.Parallel()
	own, err := user.Current()
	testkit.Must(t, err)
	const unknown = "shell-users: this node has no user no-such-user; create it, or leave it out"
	if got := refusalOf(t, "--shell-users="+own.Username+",no-such-user"); got != unknown {
		t.Errorf("an unknown user: %s", got)
	}
	if maySwitch() {
		rerun(t, nil)
		return
	}
	const want = "shell-users: this node cannot run commands as root, daemon: that needs root, or the capabilities " +
		"CAP_SETUID, CAP_SETGID and CAP_KILL; systemd: AmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL; " +
		"Docker: --cap-add SETUID --cap-add SETGID --cap-add KILL; "
	if got := refusalOf(t, "--shell-users=root,daemon,"+own.Username); !strings.HasPrefix(got, want) {
		t.Errorf("without privileges: %s", got)
	}
	if got := warningsOf(t, "--shell-users="+own.Username, "--shell-max-open-files=64"); got != "" {
		t.Errorf("its own user needs nothing: %s", got)
	}
}

func TestDescribe_WarnsOfLimitsThatItCannotSet(t *testing.T) {
	t.Parallel()
	needSwitch(t)
	plain := warningsOf(t, "--shell-users=daemon")
	if hasSysResource(t) {
		if limited := warningsOf(t, "--shell-users=daemon", "--shell-max-open-files=64"); plain != "" || limited != "" {
			t.Errorf("there is nothing to warn of: %s%s", plain, limited)
		}
		if os.Getenv(rerunTest) == "" {
			rerun(t, switching)
		}
		return
	}
	const want = "this node cannot limit commands that run as daemon: that needs the capability CAP_SYS_RESOURCE; "
	if !strings.Contains(plain, want+"commands with limits fail") || !strings.Contains(plain, "Docker: --cap-add SYS_RESOURCE;") {
		t.Error(plain)
	}
	limited := refusalOf(t, "--shell-users=daemon", "--shell-max-open-files=64")
	if !strings.Contains(limited, want+"commands would fail, as all have the limits") {
		t.Error(limited)
	}
	if got := warningsOf(t); got != "" {
		t.Errorf("without users: %s", got)
	}
}

func hasSysResource(t *testing.T) bool {
	t.Helper()
	var sets [2]unix.CapUserData
	testkit.Must(t, unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]))
	return sets[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// wantStopped starts a command that writes its number and runs until it is stopped.
func wantStopped(t *testing.T, e executor.Executor, r *executortest.Recorder) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	command := &running{r, cancel, make(chan error, 1)}
	go func() {
		_, err := e.Execute(ctx, r.Attempt)
		command.ended <- err
	}()
	pid := waitForPID(t, command)
	cause := errors.New("cancelled")
	cancel(cause)
	if err := command.wait(t); !errors.Is(err, cause) || !strings.Contains(err.Error(), "killed by signal 15") {
		t.Errorf("error is %v", err)
	}
	wantGone(t, pid)
}

// As of a variable that is not set: all commands would run as the user of this program.
func TestDescribe_RefusesAnEmptyListOfUsers(t *testing.T) {
	t.Parallel()
	const want = "shell-users: is empty: name users, as in nobody, or leave it out to run commands as the user of dtsd"
	if got := refusalOf(t, "--shell-users="); got != want {
		t.Errorf("got %s", got)
	}
	table := executor.Table{Describe()}
	settings := config.Bind(pflag.NewFlagSet("dtsd", pflag.ContinueOnError), config.Default(), table)
	_, err := settings.Load([]string{"DTS_ENABLE_SHELL=true", "DTS_SHELL_USERS="})
	testkit.Must(t, err)
	testkit.Must(t, settings.Validate()) // a node without shell may have it
	if _, err := table[0].New(executor.Options{}); err == nil || err.Error() != want {
		t.Errorf("in the environment: %v", err)
	}
}
