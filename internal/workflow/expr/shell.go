package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// CheckShell checks that no expression of the payload of a shell task can become code. What an expression yields may
// come from anybody, as a branch that is named "; rm -rf /" does.
//
// Expressions may be values of env, stdin, and whole elements of command from the second on. In command they are
// refused
//
//   - after an element that gives code to a shell, as -c does, alone or with other flags;
//   - after a program that runs the program or the text in its arguments, such as env, xargs, timeout, ssh;
//   - after a shell or an interpreter, unless the element that follows it is a script: written out, and no flag.
//
// These hold for programs anywhere in command, so sudo does not hide a shell. A variable that says what a program loads
// or runs, such as LD_PRELOAD, takes no expression either. An element that an expression yields can begin with a dash:
// who calls a program with dangerous flags puts "--" before it.
//
// field is the name of the payload for messages. Error: task.CodeInvalid, with all fields at fault.
func CheckShell(field string, payload []byte) error {
	var p map[string]json.RawMessage
	if err := json.Unmarshal(payload, &p); err != nil {
		return task.Invalid(field, "must be a JSON object")
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p)) {
		where := field + member(name)
		switch name {
		case "stdin":
		case "command":
			errs = append(errs, checkCommand(where, p[name]))
		case "env":
			errs = append(errs, checkEnv(where, p[name]))
		default:
			if mayHaveExpression(p[name]) {
				errs = append(errs, task.Invalid(where, "takes no expressions: in a shell task, %s", whereAllowed))
			}
		}
	}
	return task.Join(errs...)
}

const whereAllowed = "values of env, stdin, and whole elements of command after the program take them"

func checkEnv(field string, raw json.RawMessage) error {
	var env map[string]json.RawMessage
	if json.Unmarshal(raw, &env) != nil {
		return refuseIfExpression(field, raw)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if loads(name) && mayHaveExpression(env[name]) {
			errs = append(errs, task.Invalid(field+member(name), "takes no expressions: it says what a program loads or runs"))
		}
	}
	return task.Join(errs...)
}

// loads reports whether a variable says what programs load or run.
func loads(variable string) bool {
	return strings.HasPrefix(variable, "LD_") || strings.HasPrefix(variable, "DYLD_") ||
		strings.HasPrefix(variable, "BASH_") || slices.Contains(loading, variable)
}

var loading = []string{
	"ENV", "GIT_SSH", "GIT_SSH_COMMAND", "IFS", "JAVA_TOOL_OPTIONS", "NODE_OPTIONS", "PATH", "PERL5LIB", "PERL5OPT",
	"PROMPT_COMMAND", "PS4", "PYTHONPATH", "PYTHONSTARTUP", "RUBYLIB", "RUBYOPT", "SHELL", "SHELLOPTS",
}

func checkCommand(field string, raw json.RawMessage) error {
	var elements []string
	if json.Unmarshal(raw, &elements) != nil {
		return refuseIfExpression(field, raw)
	}
	var errs []error
	for i, element := range elements {
		if !strings.Contains(element, opening) {
			continue
		}
		if why := checkElement(elements[:i], element); why != "" {
			errs = append(errs, task.Invalid(fmt.Sprintf("%s[%d]", field, i), "%s", why))
		}
	}
	return task.Join(errs...)
}

// checkElement says what is wrong with an expression as an element of a command after others; "" if it is fine.
func checkElement(before []string, element string) string {
	parts, wrong := split(element)
	switch {
	case wrong != nil || !slices.ContainsFunc(parts, func(p part) bool { return p.isRef }):
		return "" // an escape; or ParseTemplate says it
	case len(before) == 0:
		return "takes no expressions: the program is written out"
	case len(parts) > 1:
		return "takes no text around an expression: " + whereAllowed
	}
	for i, earlier := range before {
		program := programOf(earlier)
		switch {
		case code.MatchString(earlier):
			return fmt.Sprintf("takes no expressions, as %s before it gives code to run: "+
				"set a variable in env, and read it in the code", earlier)
		case slices.Contains(runners, program):
			return fmt.Sprintf("takes no expressions, as %s runs what its arguments name: set a variable in env", earlier)
		case slices.Contains(interpreters, program) && !isScript(before[i+1:]):
			return fmt.Sprintf("takes no expressions, unless a script comes right after %s: set a variable in env", earlier)
		}
	}
	return ""
}

// code are flags that give code to run: -c, with other flags of a shell as well, and their long forms.
var code = regexp.MustCompile(`^(-[abefhiklmnprstuvxBCDEHP]*c|--command|--eval|(?i:-command|-encodedcommand|/c|/k))$`)

// runners run the program, or the text, that is in their arguments.
var runners = []string{
	"busybox", "chroot", "chrt", "cmd", "doas", "docker", "env", "eval", "exec", "find", "flock", "ionice", "kubectl",
	"nice", "nohup", "nsenter", "parallel", "podman", "rsh", "runuser", "script", "setpriv", "setsid", "ssh", "stdbuf",
	"strace", "su", "sudo", "systemd-run", "taskset", "time", "timeout", "toybox", "unshare", "watch", "xargs",
}

// interpreters run a script, or code, that is in their arguments.
var interpreters = []string{
	"ash", "awk", "bash", "bun", "csh", "dash", "deno", "fish", "gawk", "ksh", "lua", "mawk", "mksh", "node", "nodejs",
	"osascript", "perl", "php", "powershell", "pwsh", "python", "rbash", "ruby", "sed", "sh", "tclsh", "tcsh", "yash",
	"zsh",
}

var version = regexp.MustCompile(`[-0-9.]*(\.exe)?$`)

// programOf is the program that an element names, without its directory and version.
func programOf(element string) string {
	base := path.Base(strings.ReplaceAll(element, `\`, "/"))
	return version.ReplaceAllString(strings.ToLower(base), "")
}

// isScript reports whether the first of the elements after an interpreter is what it runs, so that all others are data.
func isScript(after []string) bool {
	if len(after) == 0 || after[0] == "" {
		return false
	}
	return !strings.ContainsAny(after[0][:1], "-+") && !strings.Contains(after[0], opening)
}

func refuseIfExpression(field string, raw json.RawMessage) error {
	if mayHaveExpression(raw) {
		return task.Invalid(field, "takes no expression as a whole: %s", whereAllowed)
	}
	return nil
}

// mayHaveExpression reports whether JSON has an expression or an escape of one. Its strings may be written with \u.
func mayHaveExpression(raw json.RawMessage) bool {
	v, err := decode(raw)
	return err != nil || hasOpening(v)
}

func hasOpening(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, opening)
	case []any:
		return slices.ContainsFunc(v, hasOpening)
	case map[string]any:
		for name, m := range v {
			if strings.Contains(name, opening) || hasOpening(m) {
				return true
			}
		}
	}
	return false
}
