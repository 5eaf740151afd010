package expr

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

func TestCheckShell_Command(t *testing.T) {
	t.Parallel()
	const x = "${{ params.day }}"
	for _, c := range []struct {
		command []string
		refused string // the element; "": none
	}{
		{[]string{"load", x}, ""},
		{[]string{"/opt/load", "--day", x, x}, ""},
		{[]string{"load", "$" + x, "day=$" + x}, ""},
		{[]string{"python3.12", "job.py", x}, ""},
		{[]string{"sh", "/opt/load.sh", x}, ""},
		{[]string{"sudo-like", "/bin/bash", "load.sh", x}, ""},
		{[]string{"sh", "-c", "echo ok"}, ""},
		{[]string{"tar", "-xf", x}, ""},
		{[]string{"load", "--", x}, ""},
		{[]string{"sh", "--", x}, "[2]"},
		{[]string{x}, "[0]"},
		{[]string{"load", "--day=" + x}, "[1]"},
		{[]string{"load", x + x}, "[1]"},
		{[]string{"sh", "-c", x}, "[2]"},
		{[]string{"sh", "-c", "echo $1", "sh", x}, "[4]"},
		{[]string{"bash", "-ec", x}, "[2]"},
		{[]string{"bash", "-lc", x}, "[2]"},
		{[]string{"bash", "-ce", x}, "[2]"},
		{[]string{"bash", "+e", x}, "[2]"},
		{[]string{"bash", "-o", "pipefail", x}, "[3]"},
		{[]string{"bash", x, x}, "[1]"},
		{[]string{"bash", "$" + x, x}, "[2]"},
		{[]string{"unknown", "-euxc", x}, "[2]"},
		{[]string{"unknown", "-c", x}, "[2]"},
		{[]string{"/usr/bin/env", "FOO=1", x}, "[2]"},
		{[]string{"env", "sh", "load.sh", x}, "[3]"},
		{[]string{"xargs", x}, "[1]"},
		{[]string{"timeout", "5", "load", x}, "[3]"},
		{[]string{"ssh", "host", x}, "[2]"},
		{[]string{"unknown", "/bin/dash", x}, "[2]"},
		{[]string{"python3", x}, "[1]"},
		{[]string{"perl", "-e", x}, "[2]"},
		{[]string{`C:\Windows\System32\CMD.EXE`, "/C", x}, "[2]"},
		{[]string{"pwsh", "-Command", x}, "[2]"},
	} {
		payload, err := json.Marshal(map[string]any{
			"command": c.command, "stdin": "a " + x, "env": map[string]string{"DAY": "d" + x},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = CheckShell("payload", payload)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%q: %v", c.command, err)
		case c.refused == "":
		case task.CodeOf(err) != task.CodeInvalid,
			!strings.HasPrefix(err.Error(), "payload.command"+c.refused+": takes no "):
			t.Errorf("%q: %v; want a fault of element %s", c.command, err, c.refused)
		}
	}
}

func TestCheckShell_OtherFields(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"command":["load"],"dir":"/srv/${{ params.day }}"}`:             `payload.dir: takes no expressions`,
		`{"command":["load"],"dir":"\u0024{{ params.day }}"}`:             `payload.dir: takes no expressions`,
		`{"command":["load"],"user":"${{ params.day }}"}`:                 `payload.user: takes no expressions`,
		`{"command":["load"],"limits":{"memory":"${{ params.day }}"}}`:    `payload.limits: takes no expressions`,
		`{"command":["load"],"final_exit_codes":["${{ params.limit }}"]}`: `payload.final_exit_codes: takes no expressions`,
		`{"command":"${{ params.files }}"}`:                               `payload.command: takes no expression as a whole`,
		`{"command":["load",["${{ params.files }}"]]}`:                    `payload.command: takes no expression as a whole`,
		`{"command":["load"],"env":"${{ params.options }}"}`:              `payload.env: takes no expression as a whole`,
		`{"command":["load"],"env":{"LD_PRELOAD":"${{ params.day }}"}}`:   `payload.env.LD_PRELOAD: takes no expressions`,
		`{"command":["load"],"env":{"BASH_ENV":"${{ params.day }}"}}`:     `payload.env.BASH_ENV: takes no expressions`,
		`"${{ params.options }}"`:                                         `payload: must be a JSON object`,
	} {
		if err := CheckShell("payload", []byte(payload)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v; want %s", payload, err, want)
		}
	}
	const fine = `{"command":["load"],"dir":"/srv","env":{"DAY":"${{ params.day }}","PATH":"/bin"},` +
		`"stdin":"${{ steps.a.output }}"}`
	if err := CheckShell("payload", []byte(fine)); err != nil {
		t.Errorf("%s: %v", fine, err)
	}
}
