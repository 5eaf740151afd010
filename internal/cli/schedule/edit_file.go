package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

// editor has somebody edit a file. Error: that of the program.
type editor func(ctx context.Context, path string) error

// editorOf returns the editor of the user. Error: a usage error, if there is none, or nobody who could be asked.
func editorOf(p *printer.Printer, stdin io.Reader, getenv func(string) string, yes bool) (editor, error) {
	somebody := command.CanAsk(p, stdin)
	line := cmp.Or(getenv("VISUAL"), getenv("EDITOR"))
	switch {
	case !somebody && !yes:
		return nil, command.Usagef("there is no terminal, so nobody can be asked: say --yes, and name an editor with EDITOR")
	case line == "" && !somebody:
		return nil, command.Usagef("there is no terminal and no editor: name one with EDITOR, or use export and apply")
	case line == "" && runtime.GOOS == "windows":
		line = "notepad"
	case line == "":
		line = "vi"
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, command.Usagef("VISUAL or EDITOR: names no editor")
	}
	screen := p.Out
	if !p.OutIsTerminal {
		screen = p.Err
	}
	return func(ctx context.Context, path string) error {
		// An interrupt is the editor's to handle.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), words[0], append(words[1:len(words):len(words)], path)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, screen, p.Err
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("editor %s: %w", words[0], err)
		}
		return nil
	}, nil
}

// newFile creates an empty file for an editor, and returns its path.
func newFile() (string, error) {
	file, err := os.CreateTemp("", "dtsctl-*.yaml")
	if err != nil {
		return "", err
	}
	return file.Name(), file.Close()
}

// noteMark begins the lines that edit writes at the top of a file.
const noteMark = "##"

// notesOf returns lines as notes.
func notesOf(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(noteMark + " " + printer.Flat(line) + "\n")
	}
	return b.String()
}

// faultNotes returns notes about faults. The lines are those of the file below the notes.
func faultNotes(faults manifest.Faults) string {
	const advice = "The file is invalid. Correct it, or empty it to change nothing."
	return notesOf(append([]string{advice}, faultLines(faults)...))
}

// faultLines says where in a file that begins with faultNotes the faults are, and what they are.
func faultLines(faults manifest.Faults) (lines []string) {
	for _, f := range faults {
		f.Line += 1 + len(faults)
		lines = append(lines, fmt.Sprintf("line %s: %s", strings.TrimPrefix(f.Place(), ":"), f.Message()))
	}
	return lines
}

// withoutNotes returns a text without the notes at its top.
func withoutNotes(text string) string {
	for strings.HasPrefix(text, noteMark) {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// isEmpty reports whether a text has only comments and blank lines.
func isEmpty(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// entryIn returns the entry of a schedule in a text that must have it and nothing else. The faults are what is wrong.
func entryIn(text string, of wire.Schedule) (*manifest.Entry, manifest.Faults) {
	m, err := manifest.Read([]manifest.Source{{Text: []byte(text)}}, nil, manifest.Namespaces{Fallback: of.Namespace})
	var faults manifest.Faults
	switch {
	case errors.As(err, &faults):
		return nil, faults
	case err != nil || len(m.Schedules) != 1 || len(m.Tasks) > 0:
		return nil, manifest.Faults{{Line: 1, Text: fmt.Sprintf("the file must have schedule %s, and nothing else", of.ID)}}
	}
	e := &m.Schedules[0]
	switch {
	case e.ID != of.ID:
		return nil, manifest.Faults{e.Fault("id", fmt.Sprintf("must stay %s: put a copy with apply", of.ID))}
	case e.Namespace != of.Namespace:
		return nil, manifest.Faults{e.Fault("namespace", fmt.Sprintf("must stay %s: put a copy with apply", of.Namespace))}
	}
	return e, nil
}
