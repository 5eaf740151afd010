package shellexec

import (
	"fmt"
	"log/slog"
	"strings"
)

// need is something that commands of users of this node need, and that the node does not have. Such a command fails when it is to run.
type need struct {
	what   string
	remedy string // "" if what says it
}

// warn logs what commands of users will fail for.
func (o Options) warn(log *slog.Logger) {
	for _, n := range o.needs() {
		if n.remedy == "" {
			log.Warn(n.what)
		} else {
			log.Warn(n.what, "remedy", n.remedy)
		}
	}
}

// needs finds what the users, and the limits of their commands, need.
func (o Options) needs() (needs []need) {
	var beyond, limited []string // users that commands cannot run as, and other ones than that of this program
	for _, name := range o.Users {
		a, err := lookUp(name)
		switch {
		case err != nil:
			needs = append(needs, need{what: fmt.Sprintf("shell-users: %s", err)})
		case a.checkPossible() != nil:
			beyond = append(beyond, name)
		case !a.own():
			limited = append(limited, name)
		}
	}
	if len(beyond) > 0 {
		needs = append(needs, need{
			what:   fmt.Sprintf("shell-users: this node cannot run commands as %s: that needs %s", strings.Join(beyond, ", "), switchNeeds),
			remedy: howToGive("CAP_SETUID", "CAP_SETGID", "CAP_KILL"),
		})
	}
	if len(limited) > 0 && canLimit && !mayLimitOthers() {
		which := "commands with limits fail"
		if o.limits.exist() {
			which = "commands fail, as all have the limits of --shell-max-memory, --shell-max-cpu-time or --shell-max-open-files"
		}
		needs = append(needs, need{
			what:   fmt.Sprintf("shell-users: this node cannot limit commands that run as %s: that needs %s; %s", strings.Join(limited, ", "), limitOthersNeeds, which),
			remedy: howToGive("CAP_SYS_RESOURCE"),
		})
	}
	return needs
}

// howToGive says how a service or a container gets capabilities.
func howToGive(capabilities ...string) string {
	short := make([]string, len(capabilities))
	for i, c := range capabilities {
		short[i] = strings.TrimPrefix(c, "CAP_")
	}
	return fmt.Sprintf("systemd: AmbientCapabilities=%s; Docker: --cap-add %s; Kubernetes: securityContext.capabilities.add: [%s]",
		strings.Join(capabilities, " "), strings.Join(short, " --cap-add "), strings.Join(short, ", "))
}
