package flags

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/wire"
)

// ShellCommand is the flags that say how a task of type shell runs its command.
type ShellCommand struct {
	Env            []string
	Dir            string
	Stdin          string
	FinalExitCodes []int
	User           string
	Memory         string
	CPUTime        *time.Duration
	OpenFiles      int
}

// ShellCommandNames are the names of the flags of ShellCommand.
var ShellCommandNames = []string{"env", "dir", "stdin", "final-exit-codes", "user", "memory", "cpu-time", "open-files"}

// Bind adds the flags.
func (c *ShellCommand) Bind(f *pflag.FlagSet) {
	f.StringArrayVar(&c.Env, "env", nil, "an environment variable, as NAME=VALUE; may be repeated")
	f.StringVar(&c.Dir, "dir", "", "the directory to run it in")
	f.StringVar(&c.Stdin, "stdin", "", "its standard input: a text, @FILE, or @- for dtsctl's own")
	f.IntSliceVar(&c.FinalExitCodes, "final-exit-codes", nil, "the exit codes after which it is not tried again")
	f.StringVar(&c.User, "user", "", "the user as whom it runs, one of the node's --shell-users")
	f.StringVar(&c.Memory, "memory", "", "most memory of each of its processes, as 512MiB")
	Duration(f, &c.CPUTime, "cpu-time", "most CPU time of each of its processes, as 1m30s")
	f.IntVar(&c.OpenFiles, "open-files", 0, "most open files of each of its processes")
}

// shellSigns are what a shell understands and names of programs do not have.
const shellSigns = " \t\n|&;<>()$`\\\"'*?[]{}~#"

// LineWarnings warns of a line for a shell where a program and its arguments belong: one argument with blanks or shell signs
// that names no file here.
func LineWarnings(command []string) []string {
	if len(command) != 1 || !strings.ContainsAny(command[0], shellSigns) {
		return nil
	}
	if _, err := os.Stat(command[0]); err == nil {
		return nil
	}
	quoted := "'" + strings.ReplaceAll(command[0], "'", `'\''`) + "'"
	const text = "all of %[1]s is taken as the name of a program; to have a shell run it, write: -- sh -c %[1]s"
	return []string{fmt.Sprintf(text, quoted)}
}

// shellPayload is what the shell executor takes.
type shellPayload struct {
	Command        []string          `json:"command"`
	Env            map[string]string `json:"env,omitempty"`
	Dir            string            `json:"dir,omitempty"`
	Stdin          string            `json:"stdin,omitempty"`
	FinalExitCodes []int             `json:"final_exit_codes,omitempty"`
	User           string            `json:"user,omitempty"`
	Limits         *shellLimits      `json:"limits,omitempty"`
}

type shellLimits struct {
	Memory    string  `json:"memory,omitempty"`
	CPUTime   *string `json:"cpu_time,omitempty"`
	OpenFiles int     `json:"open_files,omitempty"`
}

// limits returns nil if no flag names one.
func (c *ShellCommand) limits() *shellLimits {
	return NilIfZero(shellLimits{Memory: c.Memory, CPUTime: DurationText(c.CPUTime), OpenFiles: c.OpenFiles})
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
	return wire.Encode(shellPayload{
		Command: command, Env: env, Dir: c.Dir, Stdin: text, FinalExitCodes: c.FinalExitCodes, User: c.User, Limits: c.limits(),
	})
}
