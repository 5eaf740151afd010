package shellexec

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// need is something that commands of users of this node need, and that the node does not have.
type need struct {
	what   string
	remedy string // "" if what says it
	always bool   // every command of such a user fails for it, whatever its payload
}

// warn logs the need.
func (n need) warn(log *slog.Logger) {
	switch {
	case log == nil:
	case n.remedy == "":
		log.Warn(n.what)
	default:
		log.Warn(n.what, "remedy", n.remedy)
	}
}

// err is the need as an error.
func (n need) err() error {
	if n.remedy == "" {
		return errors.New(n.what)
	}
	return fmt.Errorf("%s; %s", n.what, n.remedy)
}

// check looks for what commands of the users need. What only some payloads need is a warning: such commands fail when
// they are to run. Error: the list of users is empty, or no command could run as one of them.
func (o Options) check(log *slog.Logger) error {
	if o.Users != nil && len(o.Users) == 0 { // all commands would run as the user of this program, and nobody meant that
		return errors.New("shell-users: is empty: name users, as in nobody, " +
			"or leave it out to run commands as the user of dtsd")
	}
	var failures []error
	for _, n := range o.needs() {
		if n.always {
			failures = append(failures, n.err())
		} else {
			n.warn(log)
		}
	}
	return errors.Join(failures...)
}

// needs finds what the users, and the limits of their commands, need.
func (o Options) needs() (needs []need) {
	var beyond, limited []string // users that commands cannot run as, and other ones than that of this program
	for _, name := range o.Users {
		a, err := lookUp(name)
		switch {
		case executor.IsPermanent(err):
			needs = append(needs, need{what: fmt.Sprintf("shell-users: %s; create it, or leave it out", err), always: true})
		case err != nil: // the users could not be looked up
			needs = append(needs, need{what: fmt.Sprintf("shell-users: %s: %s", name, err)})
		case a.checkPossible() != nil:
			beyond = append(beyond, name)
		case !a.own():
			limited = append(limited, name)
		}
	}
	if len(beyond) > 0 {
		needs = append(needs, need{
			what: fmt.Sprintf("shell-users: this node cannot run commands as %s: that needs %s",
				strings.Join(beyond, ", "), switchNeeds),
			remedy: howToGive("CAP_SETUID", "CAP_SETGID", "CAP_KILL"),
			always: true,
		})
	}
	if len(limited) > 0 && canLimit && !mayLimitOthers() {
		needs = append(needs, o.needsOfLimits(limited))
	}
	return needs
}

// needsOfLimits is what is missing for limits of the commands of users.
func (o Options) needsOfLimits(users []string) need {
	n := need{remedy: howToGive("CAP_SYS_RESOURCE"), always: o.limits.exist()}
	which := "commands with limits fail"
	if n.always {
		which = "commands would fail, as all have the limits of --shell-max-memory, --shell-max-cpu-time or " +
			"--shell-max-open-files"
	}
	n.what = fmt.Sprintf("shell-users: this node cannot limit commands that run as %s: that needs %s; %s",
		strings.Join(users, ", "), limitOthersNeeds, which)
	return n
}

// howToGive says how a service or a container gets capabilities.
func howToGive(capabilities ...string) string {
	short := make([]string, len(capabilities))
	for i, c := range capabilities {
		short[i] = strings.TrimPrefix(c, "CAP_")
	}
	const text = "systemd: AmbientCapabilities=%s; Docker: --cap-add %s; " +
		"Kubernetes: securityContext.capabilities.add: [%s]"
	all := strings.Join(capabilities, " ")
	return fmt.Sprintf(text, all, strings.Join(short, " --cap-add "), strings.Join(short, ", "))
}
