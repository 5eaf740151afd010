package shellexec

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// account is the user as whom a command runs. Nil is the user of this program.
type account struct {
	name, home string
	credential *syscall.Credential // nil if nothing is to be changed
}

// accountOf returns the account as which a command runs that names a user, or "". allowed are the users of this node; if there are any,
// every command runs as one of them, and as the first if it names none. Error: a permanent *executor.Verdict if this node may not, or cannot,
// run commands as that user.
func accountOf(name string, allowed []string) (*account, error) {
	switch {
	case name == "" && len(allowed) == 0:
		return nil, nil
	case name == "":
		name = allowed[0]
	case !slices.Contains(allowed, name):
		return nil, executor.Permanent(fmt.Errorf("payload.user: this node may not run commands as %s: %s", name, instead(name, allowed)))
	}
	a, err := lookUp(name)
	if err != nil {
		return nil, fmt.Errorf("payload.user: %w", err)
	}
	if err := a.checkPossible(); err != nil {
		return nil, executor.Permanent(fmt.Errorf("payload.user: %w", err))
	}
	return a, nil
}

// instead says which users are allowed, or how to allow one.
func instead(name string, allowed []string) string {
	if len(allowed) == 0 {
		return "no user is allowed; start dtsd with --shell-users " + name
	}
	return "--shell-users allows only " + strings.Join(allowed, ", ")
}

// lookUp reads the user database of the system.
func lookUp(name string) (*account, error) {
	u, err := user.Lookup(name)
	var unknown user.UnknownUserError
	switch {
	case errors.As(err, &unknown):
		return nil, executor.Permanent(fmt.Errorf("this node has no user %s", name))
	case err != nil:
		return nil, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of %s: %w", name, err)
	}
	c := &syscall.Credential{}
	for _, id := range []struct {
		text string
		into *uint32
	}{{u.Uid, &c.Uid}, {u.Gid, &c.Gid}} {
		if *id.into, err = parseID(id.text); err != nil {
			return nil, err
		}
	}
	for _, text := range ids {
		id, err := parseID(text)
		if err != nil {
			return nil, err
		}
		c.Groups = append(c.Groups, id)
	}
	return &account{name: name, home: u.HomeDir, credential: c}, nil
}

func parseID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not the number of a user or group", text)
	}
	return uint32(id), nil
}

// checkPossible returns an error if this program cannot become the user. A program that cannot become anybody can still run commands
// as the user that it has.
func (a *account) checkPossible() error {
	if maySwitch() {
		return nil
	}
	if !a.own() {
		return fmt.Errorf("this node cannot run commands as %s: that needs %s", a.name, switchNeeds)
	}
	a.credential = nil
	return nil
}

// own reports whether it is the user of this program.
func (a *account) own() bool {
	return a.credential == nil || int(a.credential.Uid) == os.Getuid() && int(a.credential.Uid) == os.Geteuid()
}

// set makes a process run as the user.
func (a *account) set(attr *syscall.SysProcAttr) {
	if a != nil {
		attr.Credential = a.credential
	}
}

// open lets the user open pipes of this program by name, as /dev/stderr. Whoever cannot look into the process has no name for them. Where
// the system does not have that, such a command fails.
func (a *account) open(streams ...any) {
	if a == nil {
		return
	}
	for _, s := range streams {
		if pipe, ok := s.(*os.File); ok {
			_ = pipe.Chmod(0o666)
		}
	}
}

// environ are the variables that a login sets.
func (a *account) environ() []string {
	if a == nil {
		return nil
	}
	return []string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name}
}
