package shellexec

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// command is the payload of a shell task: {command: [argv...], env?, dir?, stdin?, final_exit_codes?, user?, limits?}.
type command struct {
	argv   []string
	env    map[string]string
	dir    string
	stdin  string
	final  []int // exit codes after which there is no further attempt
	user   string
	limits limits
}

// parseCommand reads a payload. Error: *executor.InvalidPayloadError.
func parseCommand(payload json.RawMessage) (*command, error) {
	var c command
	var limited json.RawMessage
	err := executor.DecodePayload(payload, map[string]executor.Field{
		"command":          {Into: &c.argv, Want: "a list of strings"},
		"env":              {Into: &c.env, Want: "an object of strings"},
		"dir":              {Into: &c.dir, Want: "a string"},
		"stdin":            {Into: &c.stdin, Want: "a string"},
		"final_exit_codes": {Into: &c.final, Want: "a list of exit codes"},
		"user":             {Into: &c.user, Want: "a string"},
		"limits":           {Into: &limited, Want: "an object"},
	})
	if err != nil {
		return nil, err
	}
	if len(c.argv) == 0 || c.argv[0] == "" {
		return nil, executor.Invalid("command", `is missing: name a program and its arguments, like ["sleep", "1"]`)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.limits, err = parseLimits(limited); err != nil {
		return nil, err
	}
	return &c, nil
}

func (c *command) check() error {
	for i, arg := range c.argv {
		if strings.ContainsRune(arg, 0) {
			return executor.Invalid(fmt.Sprintf("command[%d]", i), "contains a NUL")
		}
	}
	for i, code := range c.final {
		if code < 1 || code > 255 {
			return executor.Invalid(fmt.Sprintf("final_exit_codes[%d]", i), "%d must be 1 to 255", code)
		}
	}
	if strings.ContainsRune(c.dir, 0) {
		return executor.Invalid("dir", "contains a NUL")
	}
	if strings.ContainsRune(c.user, 0) {
		return executor.Invalid("user", "contains a NUL")
	}
	return c.checkEnv()
}

// identity holds the variables that tell the command which attempt it works on. The payload cannot set them.
var identity = map[string]func(executor.Attempt) string{
	"DTS_TASK_ID":         func(a executor.Attempt) string { return a.ID },
	"DTS_NAMESPACE":       func(a executor.Attempt) string { return a.Namespace },
	"DTS_ATTEMPT":         func(a executor.Attempt) string { return strconv.Itoa(a.Number) },
	"DTS_IDEMPOTENCY_KEY": executor.Attempt.IdempotencyKey,
	"DTS_CHECKPOINT":      func(a executor.Attempt) string { return string(a.Checkpoint) },   // not set if there is none
	"DTS_TICK":            executor.Attempt.Tick,                                             // not set if it is ""
	"DTS_PARENT":          func(a executor.Attempt) string { return string(a.ParentJSON()) }, // not set but in a follow-up
}

// markVariable is the variable by which the processes of a command are known. Its value is another one for each run.
const markVariable = "DTS_RUN"

// traceVariable has the traceparent of the attempt, unless the payload sets another one.
const traceVariable = "TRACEPARENT"

// isSet reports whether DTS sets a variable.
func isSet(name string) bool { return identity[name] != nil || name == markVariable }

func (c *command) checkEnv() error {
	for name, value := range c.env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return executor.Invalid("env", "%q is not the name of a variable", name)
		case strings.ContainsRune(value, 0):
			return executor.Invalid("env", "the value of %s contains a NUL", name)
		case isSet(name):
			return executor.Invalid("env", "%s is set by DTS", name)
		}
	}
	return nil
}

// environ is the whole environment of the process. It takes only those of the node's own variables that are passed on, since the
// others may hold secrets of the node, such as the password of its Redis.
func (c *command) environ(a executor.Attempt, passed []string, as *account) []string {
	var env []string
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	env = append(env, as.environ()...)
	if a.Traceparent != "" {
		env = append(env, traceVariable+"="+a.Traceparent) // of two entries of a name, the later one counts
	}
	for name, value := range c.env {
		env = append(env, name+"="+value)
	}
	for name, value := range identity {
		if v := value(a); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
