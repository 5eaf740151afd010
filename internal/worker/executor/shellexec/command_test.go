package shellexec

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestParseCommand_RefusesAPayloadThatCannotWork(t *testing.T) {
	for name, c := range map[string]struct{ payload, field, message string }{
		"not an object":           {`"ls"`, "payload", "object"},
		"no command":              {`{}`, "payload.command", "missing"},
		"an empty command":        {`{"command": []}`, "payload.command", "missing"},
		"a program without name":  {`{"command": ["", "a"]}`, "payload.command", "missing"},
		"a command line":          {`{"command": "ls -l"}`, "payload.command", "a list of strings"},
		"an argument with a NUL":  {`{"command": ["ls", "a\u0000b"]}`, "payload.command[1]", "NUL"},
		"an unknown field":        {`{"command": ["ls"], "cwd": "/"}`, "payload.cwd", "not known: there is command, dir, env, final_exit_codes, limits, stdin, user"},
		"env of a wrong type":     {`{"command": ["ls"], "env": ["A=1"]}`, "payload.env", "an object of strings"},
		"a variable without name": {`{"command": ["ls"], "env": {"": "1"}}`, "payload.env", "not the name of a variable"},
		"a variable with a =":     {`{"command": ["ls"], "env": {"A=B": "1"}}`, "payload.env", "not the name of a variable"},
		"a value with a NUL":      {`{"command": ["ls"], "env": {"A": "\u0000"}}`, "payload.env", "value of A"},
		"the task's id":           {`{"command": ["ls"], "env": {"DTS_TASK_ID": "x"}}`, "payload.env", "set by DTS"},
		"the mark of a run":       {`{"command": ["ls"], "env": {"DTS_RUN": "x"}}`, "payload.env", "set by DTS"},
		"the idempotency key":     {`{"command": ["ls"], "env": {"DTS_IDEMPOTENCY_KEY": "x"}}`, "payload.env", "set by DTS"},
		"dir of a wrong type":     {`{"command": ["ls"], "dir": 1}`, "payload.dir", "a string"},
		"dir with a NUL":          {`{"command": ["ls"], "dir": "/\u0000"}`, "payload.dir", "NUL"},
		"user of a wrong type":    {`{"command": ["ls"], "user": 0}`, "payload.user", "a string"},
		"limits of a wrong type":  {`{"command": ["ls"], "limits": 1}`, "payload.limits", "must be a JSON object"},
		"an unknown limit":        {`{"command": ["ls"], "limits": {"disk": 1}}`, "payload.limits.disk", "cpu_time, memory, open_files"},
		"a number as memory":      {`{"command": ["ls"], "limits": {"memory": 1}}`, "payload.limits.memory", "512MiB"},
		"memory without a unit":   {`{"command": ["ls"], "limits": {"memory": "100"}}`, "payload.limits.memory", "KiB, MiB, GiB, TiB"},
		"too little memory":       {`{"command": ["ls"], "limits": {"memory": "1KiB"}}`, "payload.limits.memory", "1MiB to 1024TiB"},
		"a part of a CPU second":  {`{"command": ["ls"], "limits": {"cpu_time": "1.5s"}}`, "payload.limits.cpu_time", "whole seconds"},
		"no CPU time":             {`{"command": ["ls"], "limits": {"cpu_time": "0s"}}`, "payload.limits.cpu_time", "from 1s"},
		"too few open files":      {`{"command": ["ls"], "limits": {"open_files": 0}}`, "payload.limits.open_files", "16 to 1048576"},
		"stdin of a wrong type":   {`{"command": ["ls"], "stdin": {}}`, "payload.stdin", "a string"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Options{}).Execute(t.Context(), executortest.NewRecorder(c.payload).Attempt)
			executortest.WantInvalid(t, err, c.field, c.message)
		})
	}
}

func FuzzParseCommand(f *testing.F) {
	f.Add(`{"command": ["sh", "-c", "echo"], "env": {"A": "b"}, "dir": "/", "stdin": "text"}`)
	f.Add(`{"command": [null], "env": {"DTS_ATTEMPT": "1"}}`)
	f.Add(`{"command": ["\u0000"]}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := parseCommand(json.RawMessage(payload))
		if err != nil {
			var invalid *executor.InvalidPayloadError
			if !errors.As(err, &invalid) || c != nil {
				t.Fatalf("%q: got %v, %v", payload, c, err)
			}
			return
		}
		cmd := c.exec(executortest.NewRecorder(payload).Attempt, passedEnv, nil)
		if strings.ContainsRune(strings.Join(append(cmd.Args, cmd.Env...), ""), 0) {
			t.Fatalf("%q: a NUL in %q %q", payload, cmd.Args, cmd.Env)
		}
	})
}

func FuzzReadLines(f *testing.F) {
	f.Add("a\nb\r\n\n::progress 3\nlast", 1)
	f.Add(strings.Repeat("é", 5000)+"\n\xff", 7)
	f.Add("::checkpoint {\"a\": 1}\r\n"+checkpointPrefix+strings.Repeat("é", checkpointLine/2)+"\nlast", 4096)
	f.Add("\r10%\r20%\r\n\r\r30%\r\r\n\r", 1)
	f.Add("10%\r20%", 100)
	f.Fuzz(func(t *testing.T, text string, size int) {
		var got []string
		chunks := &chunked{rest: text, size: max(size, 1)}
		show := func(state string) {
			if line := strings.Split(text, "\n")[len(got)]; strings.TrimSpace(state) == "" || !beginsState(line, state) {
				t.Errorf("%q is shown of line %d, %q", state, len(got), line)
			}
		}
		err := readLines(chunks, func(line string) { got = append(got, line) }, show)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(text, "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		if len(got) != len(want) {
			t.Fatalf("%d lines of %d", len(got), len(want))
		}
		for i, line := range want {
			newest := ""
			if states := statesOf(line); len(states) > 0 {
				newest = states[len(states)-1]
			}
			if exp := lineText([]byte(newest)); got[i] != exp {
				t.Fatalf("line %d is %q, want %q", i, got[i], exp)
			}
		}
	})
}

// statesOf are the states of a line that are not empty, the oldest one first.
func statesOf(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return r == '\r' })
}

// beginsState reports whether a text is the beginning of a state of a line. It may end within a character.
func beginsState(line, text string) bool {
	const invalid = string(utf8.RuneError)
	text = strings.TrimRight(strings.TrimSuffix(text, task.CutMark), invalid)
	return slices.ContainsFunc(statesOf(line), func(state string) bool {
		return strings.HasPrefix(strings.ToValidUTF8(state, invalid), text)
	})
}

// chunked returns a text in pieces.
type chunked struct {
	rest string
	size int
}

func (c *chunked) Read(into []byte) (int, error) {
	n := copy(into, c.rest[:min(c.size, len(c.rest))])
	c.rest = c.rest[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
