package shellexec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// nameLimit is how many bytes of a name from the payload an error quotes.
const nameLimit = 200

// lack says what was missing when the command could not be started from path, for good. An error that may pass, as for
// want of memory, stays as it is.
func (c *command) lack(err error, path string, as *account) error {
	if text := c.missing(err, path, as); text != "" {
		return executor.Permanent(errors.New(text))
	}
	return err
}

func (c *command) missing(err error, path string, as *account) string {
	name := task.Cut(c.argv[0], nameLimit)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Sprintf("payload.command: this node has no program %s in its PATH%s", name, c.shellHint())
	case errors.Is(err, exec.ErrDot):
		return fmt.Sprintf("payload.command: %v", err)
	case errors.Is(err, syscall.E2BIG):
		return "payload: the command, its variables and the checkpoint are longer than the system allows"
	case errors.Is(err, syscall.ENOEXEC):
		const text = "payload.command: %s is no program for this node: a script begins with #! and its interpreter"
		return fmt.Sprintf(text, name)
	}
	if text := c.missingDir(err); text != "" {
		return text
	}
	switch {
	case errors.Is(err, syscall.EACCES):
		return c.forbidden(name, as)
	case errors.Is(err, fs.ErrNotExist):
		if needs := c.interpreter(path); needs != "" {
			return fmt.Sprintf("payload.command: %s needs %s, which this node does not have", name, needs)
		}
		return fmt.Sprintf("payload.command: this node has no program %s%s", name, c.shellHint())
	case isNoPath(err):
		return fmt.Sprintf("payload.command: %s: %v", name, errors.Unwrap(err))
	}
	return ""
}

// isNoPath reports whether an error says that a path leads nowhere.
func isNoPath(err error) bool {
	for _, no := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// missingDir says what is wrong with the directory, if that is why the command could not be started.
func (c *command) missingDir(failure error) string {
	if c.dir == "" || !isNoPath(failure) {
		return ""
	}
	name := task.Cut(c.dir, nameLimit)
	info, err := os.Stat(c.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("payload.dir: this node has no directory %s", name)
	case isNoPath(err):
		return fmt.Sprintf("payload.dir: %s: %v", name, errors.Unwrap(err))
	case err == nil && !info.IsDir():
		return fmt.Sprintf("payload.dir: %s is no directory", name)
	}
	return ""
}

// forbidden says who may not run the program. With a directory, that may be what is forbidden.
func (c *command) forbidden(name string, as *account) string {
	who, where := "this node", ""
	if as != nil {
		who = "user " + as.name
	}
	if c.dir != "" {
		where = " in " + task.Cut(c.dir, nameLimit)
	}
	return fmt.Sprintf("payload.command: %s may not run %s%s: permission denied", who, name, where)
}

// interpreter is what a program that exists needs in order to run; "" if it does not exist.
func (c *command) interpreter(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 256) // as much as Linux reads
	n, _ := io.ReadFull(f, head)
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	text, script := strings.CutPrefix(string(line), "#!")
	if !script {
		return "a dynamic loader"
	}
	text = strings.TrimLeft(text, " \t")
	if end := strings.IndexAny(text, " \t"); end >= 0 {
		text = text[:end]
	}
	return fmt.Sprintf("%q", text) // a carriage return at its end is part of the name
}

// shellHint is for those who wrote a line for a shell as the name of a program.
func (c *command) shellHint() string {
	if len(c.argv) > 1 || !strings.ContainsAny(c.argv[0], " \t\n") {
		return ""
	}
	return `: to have a shell run it, write ["sh", "-c", "..."]`
}
