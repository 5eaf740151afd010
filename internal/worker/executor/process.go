package executor

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// pickUpTime is how long output is read on after the process and its group have ended. What a pipe still
// holds is read at once; more can only come from a descendant that left the group.
const pickUpTime = time.Second

// process is a command that runs in a process group of its own.
//
// Three goroutines read and feed its streams, one (supervise) sends all signals, and the one that started
// it waits for it. The order at its end: the main process exits; the group is killed; the main process is
// reaped, so that its number, which is the group's, cannot become somebody else's before; the readers
// finish.
type process struct {
	cmd     *exec.Cmd
	pipes   []*os.File    // our ends of stdout and stderr
	exited  chan struct{} // the main process has ended
	drained chan struct{} // the streams have ended
	fed     sync.WaitGroup
	stopped bool // the context ended before the process did; to be read after wait
}

func start(c *command, a Attempt, out *output) (*process, error) {
	p := &process{cmd: c.exec(a), exited: make(chan struct{}), drained: make(chan struct{})}
	theirs, err := p.connect()
	defer closeAll(theirs)
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
	if err := p.cmd.Start(); err != nil {
		closeAll(p.pipes)
		return nil, err
	}
	p.stream(c.stdin, stdin, out)
	return p, nil
}

// connect makes the pipes for stdout and stderr and returns the process's ends. They are made here, and
// not by exec.Cmd, because reading has to go on after Wait, and for a limited time.
func (p *process) connect() (theirs []*os.File, err error) {
	for _, stream := range []*io.Writer{&p.cmd.Stdout, &p.cmd.Stderr} {
		ours, their, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		p.pipes, theirs = append(p.pipes, ours), append(theirs, their)
		*stream = their
	}
	return theirs, nil
}

// stream starts the goroutines that read the output and write the input; drained is closed at their end.
// Writing ends with the process, as Wait closes stdin.
func (p *process) stream(input string, stdin io.WriteCloser, out *output) {
	var all sync.WaitGroup
	all.Go(func() { _ = readLines(p.pipes[0], out.stdout) })
	all.Go(func() { _ = readLines(p.pipes[1], out.stderr) })
	go func() {
		all.Wait()
		close(p.drained)
	}()
	if stdin != nil {
		p.fed.Go(func() {
			_, _ = io.WriteString(stdin, input) // a command need not read it all
			_ = stdin.Close()
		})
	}
}

// wait waits for the end of the process, its group and its output, and stops them when ctx ends.
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
	giveUp := time.AfterFunc(pickUpTime, func() {
		for _, pipe := range p.pipes {
			_ = pipe.SetReadDeadline(time.Unix(1, 0)) // long ago: reading ends now
		}
	})
	defer giveUp.Stop()
	<-p.drained
	p.fed.Wait()
	closeAll(p.pipes)
	return err
}

// supervise sends every signal that the group gets. It returns when the main process has exited, or is
// bound to, and the group is killed.
func (p *process) supervise(ctx context.Context, grace time.Duration) {
	defer p.signal(syscall.SIGKILL)
	select {
	case <-p.exited:
		return
	case <-ctx.Done():
	}
	select {
	case <-p.exited: // both at once: it ended by itself
		return
	default:
		p.stopped = true
	}
	if errors.Is(context.Cause(ctx), ErrNoGrace) {
		return
	}
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	// A shell dies of SIGTERM at once, while the program it runs may be tidying up. It gets the rest of the
	// grace period as well: while it lives, it holds the output open.
	for _, end := range []<-chan struct{}{p.exited, p.drained} {
		select {
		case <-end:
		case <-timer.C:
			return
		}
	}
}

// signal signals the whole group. There is nothing to be done about an error: the group is gone already,
// or belongs to another user.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
