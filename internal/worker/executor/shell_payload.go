package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// command is the payload of a shell task: {command: [argv...], env?, dir?, stdin?}.
type command struct {
	argv  []string
	env   map[string]string
	dir   string
	stdin string
}

func parseCommand(payload json.RawMessage) (*command, error) {
	var c command
	err := decodePayload(payload, map[string]field{
		"command": {&c.argv, "a list of strings"},
		"env":     {&c.env, "an object of strings"},
		"dir":     {&c.dir, "a string"},
		"stdin":   {&c.stdin, "a string"},
	})
	if err != nil {
		return nil, err
	}
	if len(c.argv) == 0 || c.argv[0] == "" {
		return nil, invalid("command", `is missing: name a program and its arguments, like ["sleep", "1"]`)
	}
	for i, arg := range c.argv {
		if strings.ContainsRune(arg, 0) {
			return nil, invalid(fmt.Sprintf("command[%d]", i), "has a NUL in it")
		}
	}
	if strings.ContainsRune(c.dir, 0) {
		return nil, invalid("dir", "has a NUL in it")
	}
	if err := c.checkEnv(); err != nil {
		return nil, err
	}
	return &c, nil
}

// identity are the variables that say whose process it is. The payload cannot set them.
var identity = map[string]func(Attempt) string{
	"DTS_TASK_ID":         func(a Attempt) string { return a.ID },
	"DTS_NAMESPACE":       func(a Attempt) string { return a.Namespace },
	"DTS_ATTEMPT":         func(a Attempt) string { return strconv.Itoa(a.Number) },
	"DTS_IDEMPOTENCY_KEY": Attempt.IdempotencyKey,
	"DTS_TICK":            Attempt.Tick, // not set if there is none
}

func (c *command) checkEnv() error {
	for name, value := range c.env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return invalid("env", "%q is not a variable's name", name)
		case strings.ContainsRune(value, 0):
			return invalid("env", "the value of %s has a NUL in it", name)
		case identity[name] != nil:
			return invalid("env", "%s is set by DTS", name)
		}
	}
	return nil
}

// environ is the whole environment of the process. Of the node's own variables only those go in without
// which few programs work: the others hold the node's secrets, such as the password of its Redis.
func (c *command) environ(a Attempt) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range c.env {
		env = append(env, name+"="+value) // of two of a name, the later one counts
	}
	for name, value := range identity {
		if v := value(a); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
