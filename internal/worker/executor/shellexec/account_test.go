//go:build unix

package shellexec

import (
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// other is a user that every system has.
const other = "nobody"

func needSwitch(t *testing.T) {
	t.Helper()
	if !maySwitch() {
		t.Skip("this process cannot run commands as another user: that needs " + switchNeeds)
	}
}

// as is an attempt that runs a script as a user.
func as(t *testing.T, user, script string) *executortest.Recorder {
	t.Helper()
	return executortest.NewRecorder(executortest.JSON(t, object{"command": []string{"/bin/sh", "-c", script}, "user": user, "dir": "/"}))
}

func TestExecutor_RunsTheCommandAsTheUserThatThePayloadNames(t *testing.T) {
	t.Parallel()
	needSwitch(t)
	u, err := user.Lookup(other)
	testkit.Must(t, err)
	groups, err := u.GroupIds()
	testkit.Must(t, err)
	e := described(t, "--shell-users=daemon,"+other)
	got, err := e.Execute(t.Context(), as(t, other, `id -u; id -ru; id -g; echo "$USER $LOGNAME $HOME"; id -G`).Attempt)
	testkit.Must(t, err)
	lines := strings.Split(got, "\n")
	want := []string{u.Uid, u.Uid, u.Gid, other + " " + other + " " + u.HomeDir}
	if !slices.Equal(lines[:4], want) {
		t.Errorf("the command runs as %q, want %q", lines[:4], want)
	}
	if has := strings.Fields(lines[4]); !slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(slices.Values(groups))) {
		t.Errorf("its groups are %v, want %v", has, groups)
	}
}

func TestExecutor_RunsCommandsThatNameNoUserAsTheFirst(t *testing.T) {
	t.Parallel()
	needSwitch(t)
	e := described(t, "--shell-users="+other+",daemon")
	got, err := e.Execute(t.Context(), as(t, "", `id -un; echo $HOME`).Attempt)
	u, failure := user.Lookup(other)
	testkit.Must(t, failure)
	if want := other + "\n" + u.HomeDir; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestExecutor_LetsThePayloadSetTheHomeOfAUser(t *testing.T) {
	t.Parallel()
	needSwitch(t)
	e := described(t, "--shell-users="+other)
	r := executortest.NewRecorder(`{"command": ["/bin/sh", "-c", "echo $HOME $USER"], "env": {"HOME": "/tmp"}, "user": "nobody", "dir": "/"}`)
	if got, err := e.Execute(t.Context(), r.Attempt); err != nil || got != "/tmp nobody" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecutor_LetsAUserOpenItsStreamsByName(t *testing.T) {
	t.Parallel()
	needSwitch(t)
	r := executortest.NewRecorder(`{"command": ["/bin/sh", "-c", "cat </dev/stdin >/dev/stdout; echo b >/dev/stderr"], "stdin": "a", "user": "nobody", "dir": "/"}`)
	got, err := described(t, "--shell-users="+other).Execute(t.Context(), r.Attempt)
	if err != nil || got != "a" || !slices.Equal(r.Lines["stderr"], []string{"b"}) {
		t.Errorf("got %q and %q, %v", got, r.Lines["stderr"], err)
	}
}

func TestExecutor_RunsACommandAsItsOwnUserWithoutAnyPrivilege(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	testkit.Must(t, err)
	e := described(t, "--shell-users="+me.Username)
	if got, err := e.Execute(t.Context(), as(t, me.Username, `id -u; echo $USER`).Attempt); err != nil || got != me.Uid+"\n"+me.Username {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecutor_FailsForGoodWhereItMayNotOrCannotRunAsTheUser(t *testing.T) {
	t.Parallel()
	const notAllowed = "payload.user: this node may not run commands as "
	for name, c := range map[string]struct {
		users      []string
		user, want string
	}{
		"nobody is allowed": {nil, other, notAllowed + "nobody: no user is allowed; start dtsd with --shell-users nobody"},
		"others are":        {[]string{"daemon", "www-data"}, "root", notAllowed + "root: --shell-users allows only daemon, www-data"},
		"gone meanwhile":    {[]string{"no-such-user"}, "no-such-user", "payload.user: this node has no user no-such-user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(Options{Users: c.users}).Execute(t.Context(), as(t, c.user, "true").Attempt)
			if err == nil || err.Error() != c.want || !executor.IsPermanent(err) {
				t.Errorf("error is %v, want finally %q", err, c.want)
			}
		})
	}
}
