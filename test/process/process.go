// Package process runs the programs of this module as processes of their own, for tests that stop, freeze and kill them.
package process

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// QuickRace has a program with the race detector end at once; it would wait for a second otherwise.
const QuickRace = "atexit_sleep_ms=0"

// startLimit is how long a program may take until all of its roles run.
const startLimit = 30 * time.Second

const (
	stopLimit  = time.Minute     // how long a program may take to end; a drain takes 30 s at most unless a test says otherwise
	stackLimit = 5 * time.Second // how long it may take to write the stacks of its goroutines
)

// Build builds packages and returns the new directory that the programs are in. They have the race detector if the test has it. The paths of
// the packages are relative to the working directory, that of the test. It keeps the programs of each working directory in the user's cache:
// go build links only those that have changed since the last call, and linking one takes seconds.
func Build(packages ...string) (dir string, err error) {
	kept, err := keptPrograms()
	if err != nil {
		return "", err
	}
	build := goBuild(kept, "", packages...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	if dir, err = os.MkdirTemp(filepath.Dir(kept), "run-"); err != nil {
		return "", err
	}
	for _, p := range packages {
		name := filepath.Base(p)
		// A link: the next build replaces the kept program and leaves this one as it is.
		if err := os.Link(filepath.Join(kept, name), filepath.Join(dir, name)); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// goBuild builds packages, with the flags of the test itself, so that Go's cache has what both need.
func goBuild(out, link string, packages ...string) *exec.Cmd {
	args := append([]string{"build"}, buildFlags...)
	return exec.Command("go", append(append(args, "-ldflags=-s -w"+link, "-o", out), packages...)...)
}

// keptPrograms returns the directory that keeps the programs of the working directory.
func keptPrograms() (dir string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, fmt.Sprintf("programs-%x", sha256.Sum256([]byte(here+strings.Join(buildFlags, " ")))))
	return dir, os.MkdirAll(dir, 0o700)
}

// cacheDir is where tests keep what takes long to make.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "dts-test"), err
}

var skewing sync.Mutex // held while BuildSkewed builds

// BuildSkewed builds a dtsd whose clock is ahead by a duration, or behind by a negative one, into a directory that Build returned, unless it is
// there already. It returns the name of the program.
func BuildSkewed(dir, dtsd, skew string) (name string, err error) {
	skewing.Lock()
	defer skewing.Unlock()
	name = "dtsd" + skew
	if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
		return name, nil
	}
	return name, BuildWith(dir, name, dtsd, "internal/clock.skew", skew)
}

// BuildWith builds a program with another value of a variable of a package, into a directory that Build returned.
func BuildWith(dir, name, program, variable, value string) error {
	build := goBuild(filepath.Join(dir, name), " -X github.com/dts-sched/dts/"+variable+"="+value, program)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s with %s=%s: %w\n%s", program, variable, value, err, out)
	}
	return nil
}

// ErrNoCommit is the error of BuildCommit if the checkout has not that much history.
var ErrNoCommit = errors.New("the checkout does not have the commit, so a complete clone is needed")

// BuildCommit builds a program of this module as it was at a commit, without the race detector, into a directory that Build returned. Error:
// ErrNoCommit, among others.
func BuildCommit(dir, name, commit, program string) error {
	sources, err := unpack(commit)
	if err != nil {
		return fmt.Errorf("unpacking commit %s: %w", commit, err)
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, name), program)
	build.Dir, build.Env = sources, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s of commit %s: %w\n%s", program, commit, err, out)
	}
	return nil
}

// unpack writes the files of a commit to a directory of its own, if that was not done before: Go's build cache goes by the directory.
func unpack(commit string) (dir string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, commit)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", ErrNoCommit
	}
	git := func(args ...string) *exec.Cmd {
		return exec.Command("git", append([]string{"-C", strings.TrimSpace(string(root))}, args...)...)
	}
	if git("cat-file", "-e", commit+"^{commit}").Run() != nil {
		if shallow, err := git("rev-parse", "--is-shallow-repository").Output(); err != nil || strings.TrimSpace(string(shallow)) == "true" {
			return "", ErrNoCommit
		}
		return "", errors.New("the history does not have the commit")
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(cache, "")
	if err != nil {
		return "", err
	}
	archive := filepath.Join(fresh, "sources.tar")
	for _, step := range []*exec.Cmd{git("archive", "-o", archive, commit), exec.Command("tar", "-xf", archive, "-C", fresh)} {
		if out, err := step.CombinedOutput(); err != nil {
			return "", errors.Join(fmt.Errorf("%w: %s", err, out), os.RemoveAll(fresh))
		}
	}
	if err := os.Rename(fresh, dir); err != nil { // another process was faster
		return dir, os.RemoveAll(fresh)
	}
	return dir, nil
}

// Process is dtsd, or another program that logs as dtsd does, on a free port of 127.0.0.1.
type Process struct {
	ID      string // of the node
	URL     string // of its API; that of no server if it has none
	cmd     *exec.Cmd
	running chan struct{} // closed when every role runs
	done    chan struct{} // closed when the process has ended, with err
	err     error

	mu  sync.Mutex
	log bytes.Buffer
}

// Start starts a program of dir and waits until it says that every role runs. If it fails, the error has the program's log.
func Start(dir, name string, args ...string) (*Process, error) {
	p, err := Launch(dir, name, args...)
	if err != nil {
		return nil, err
	}
	if err := p.AwaitRunning(); err != nil {
		return nil, err
	}
	return p, nil
}

// Launch starts a program of dir. It has no ID and no URL before AwaitRunning.
func Launch(dir, name string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(filepath.Join(dir, name), args...), running: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1 "+QuickRace, "DTS_LISTEN=127.0.0.1:0", "DTS_LOG_FORMAT=json")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.read(stderr)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// AwaitRunning waits until the program says that every role runs, and kills it if that takes too long. Error: with the program's log.
func (p *Process) AwaitRunning() error {
	name := filepath.Base(p.cmd.Path)
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case <-p.running:
		return nil
	case <-p.done:
		return fmt.Errorf("%s ended at once: %w\n%s", name, p.err, p.Log())
	case <-limit.C:
		p.Kill()
		return fmt.Errorf("%s does not run after %s:\n%s", name, startLimit, p.Log())
	}
}

// read takes the log apart: the line that says that the node runs names its address and id.
func (p *Process) read(log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct{ Msg, Listen, Node string }
		_ = json.Unmarshal(lines.Bytes(), &entry) // a panic is not JSON
		switch entry.Msg {
		case "request":
			continue
		case "running":
			p.URL, p.ID = "http://"+entry.Listen, entry.Node
			close(p.running)
		}
		p.mu.Lock()
		p.log.Write(lines.Bytes())
		p.log.WriteByte('\n')
		p.mu.Unlock()
	}
}

// Log is what the program has logged, but for requests.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Raced reports whether the race detector has found something.
func (p *Process) Raced() bool { return strings.Contains(p.Log(), "DATA RACE") }

// Signal sends a signal, unless the process has ended.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill ends the process as a crash does, also if it is stopped, and waits for its end.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // it can only fail if there is nothing to end
	<-p.done
}

// Stop asks the process to end and waits until it has. Error: how it ended, if not with exit code 0. If it does not end within a minute, its log
// gets the stacks of its goroutines, and it is killed.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-p.done:
		return p.err
	case <-limit.C:
	}
	err := fmt.Errorf("it has not ended %s after SIGTERM", stopLimit)
	if signal := p.Signal(syscall.SIGQUIT); signal != nil {
		return errors.Join(err, signal)
	}
	limit.Reset(stackLimit)
	select {
	case <-p.done:
	case <-limit.C:
		p.Kill()
	}
	return err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended, nil with exit code 0. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// WasKilled reports whether SIGKILL ended the process. It waits for the end.
func (p *Process) WasKilled() bool {
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}
