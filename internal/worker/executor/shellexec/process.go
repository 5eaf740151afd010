package shellexec

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// pickUpTime is how long output is still read after the process and its group have ended. Reading what the pipes hold
// takes no time; more can only come from a descendant that left the group and was not found.
const pickUpTime = time.Second

// process is a command that runs in a process group of its own.
//
// Three goroutines serve its streams, one (supervise) sends all signals, and the one that started it waits for it. The
// order at its end: the main process exits; the group is killed; the main process is reaped; what left the group is killed; the readers finish. The
// group is killed before the reaping, because the number of the process, which is also the group's, may be given to
// another process after it.
type process struct {
	cmd     *exec.Cmd
	mark    string // value of markVariable, by which its processes are known
	started time.Time
	pipes   []*os.File    // our ends of stdout and stderr
	exited  chan struct{} // the main process has ended
	drained chan struct{} // the streams have ended
	fed     sync.WaitGroup
	stopped bool // the context ended before the process; read it after wait
}

// start starts the command. The thread of the caller must stay the same until the process has ended.
func (c *command) start(a executor.Attempt, passed []string, as *account, out *output) (*process, error) {
	p := &process{
		cmd: c.exec(a, passed, as), mark: rand.Text(), started: clock.Now(), exited: make(chan struct{}), drained: make(chan struct{}),
	}
	p.cmd.Env = append(p.cmd.Env, markVariable+"="+p.mark)
	childEnds, err := p.connect()
	defer closeAll(childEnds)
	if err != nil {
		closeAll(p.pipes)
		return nil, err
	}
	var stdin io.WriteCloser
	if c.stdin != "" {
		if stdin, err = p.cmd.StdinPipe(); err != nil {
			closeAll(p.pipes)
			return nil, err
		}
	}
	as.open(p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr)
	if err := as.start(p.cmd.Start); err != nil {
		closeAll(p.pipes)
		return nil, c.lack(err, p.cmd.Path, as)
	}
	if err := c.limits.apply(p.cmd.Process.Pid); err != nil {
		p.signal(syscall.SIGKILL)
		_ = p.cmd.Wait()
		closeAll(p.pipes)
		return nil, err
	}
	p.stream(c.stdin, stdin, out)
	return p, nil
}

// connect makes the pipes for stdout and stderr and returns the process's ends. exec.Cmd does not make them, because
// reading must go on after Wait, for a limited time.
func (p *process) connect() (childEnds []*os.File, err error) {
	for _, stream := range []*io.Writer{&p.cmd.Stdout, &p.cmd.Stderr} {
		ourEnd, childEnd, err := os.Pipe()
		if err != nil {
			return childEnds, err
		}
		p.pipes, childEnds = append(p.pipes, ourEnd), append(childEnds, childEnd)
		*stream = childEnd
	}
	return childEnds, nil
}

// stream starts the goroutines that read the output and write the input. drained is closed when the output has ended.
// Writing ends with the process, as Wait closes stdin.
func (p *process) stream(input string, stdin io.WriteCloser, out *output) {
	var readers sync.WaitGroup
	readers.Go(func() { _ = readLines(p.pipes[0], out.stdout, out.showStdout) })
	readers.Go(func() { _ = readLines(p.pipes[1], out.stderr, out.showStderr) })
	go func() {
		readers.Wait()
		close(p.drained)
	}()
	if stdin != nil {
		p.fed.Go(func() {
			_, _ = io.WriteString(stdin, input) // the command may end without reading all of it
			_ = stdin.Close()
		})
	}
}

// wait waits until the process, its group and its output have ended, and stops them when ctx ends.
func (p *process) wait(ctx context.Context, grace time.Duration) error {
	supervised := make(chan struct{})
	go func() {
		defer close(supervised)
		p.supervise(ctx, grace)
	}()
	err := reap(p.cmd, func() {
		close(p.exited)
		<-supervised
	})
	p.endLeftovers()
	giveUp := time.AfterFunc(pickUpTime, func() {
		for _, pipe := range p.pipes {
			_ = pipe.SetReadDeadline(time.Unix(1, 0)) // in the past: reading ends now
		}
	})
	defer giveUp.Stop()
	<-p.drained
	p.fed.Wait()
	closeAll(p.pipes)
	return err
}

// supervise sends every signal that the group gets. It returns when the group is killed, and the main process has
// exited or is about to.
func (p *process) supervise(ctx context.Context, grace time.Duration) {
	defer p.signal(syscall.SIGKILL)
	select {
	case <-p.exited:
		return
	case <-ctx.Done():
	}
	select {
	case <-p.exited: // both happened: the process ended by itself
		return
	default:
		p.stopped = true
	}
	if errors.Is(context.Cause(ctx), executor.ErrNoGrace) {
		return
	}
	p.signal(syscall.SIGTERM)
	p.askLeftovers()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	// A shell dies of SIGTERM at once, while the program that it runs may still clean up. That program gets the rest of
	// the grace period: while it lives, it holds the output open.
	for _, end := range []<-chan struct{}{p.exited, p.drained} {
		select {
		case <-end:
		case <-timer.C:
			return
		}
	}
}

// signal signals the whole group. It ignores errors: they mean that the group is gone, or belongs to another user.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
