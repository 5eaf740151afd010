package flags

import (
	"encoding/json"
	"io"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/rest"
)

// ShellCommand is the flags that say how a task of type shell runs its command.
type ShellCommand struct {
	Env            []string
	Dir            string
	Stdin          string
	FinalExitCodes []int
}

// ShellCommandNames are the names of the flags of ShellCommand.
var ShellCommandNames = []string{"env", "dir", "stdin", "final-exit-codes"}

// Bind adds the flags.
func (c *ShellCommand) Bind(f *pflag.FlagSet) {
	f.StringArrayVar(&c.Env, "env", nil, "an environment variable, as NAME=VALUE; may be repeated")
	f.StringVar(&c.Dir, "dir", "", "the directory to run it in")
	f.StringVar(&c.Stdin, "stdin", "", "its standard input: a text, @FILE, or @- for dtsctl's own")
	f.IntSliceVar(&c.FinalExitCodes, "final-exit-codes", nil, "the exit codes after which it is not tried again")
}

// shellPayload is what the shell executor takes.
type shellPayload struct {
	Command        []string          `json:"command"`
	Env            map[string]string `json:"env,omitempty"`
	Dir            string            `json:"dir,omitempty"`
	Stdin          string            `json:"stdin,omitempty"`
	FinalExitCodes []int             `json:"final_exit_codes,omitempty"`
}

// Payload returns the payload of a task that runs the command.
func (c *ShellCommand) Payload(stdin io.Reader, command []string) (json.RawMessage, error) {
	env, err := Pairs("--env", "=", c.Env)
	if err != nil {
		return nil, err
	}
	text, err := Text(stdin, "--stdin", c.Stdin)
	if err != nil {
		return nil, err
	}
	return rest.Encode(shellPayload{Command: command, Env: env, Dir: c.Dir, Stdin: text, FinalExitCodes: c.FinalExitCodes})
}
