package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"
)

// peerProcess is the program of a peer, which takes one step after the other. Package peer in peers says which steps.
type peerProcess struct {
	cmd     *exec.Cmd
	steps   io.WriteCloser
	answers *bufio.Reader
	said    safeBuffer
}

// step is what a program is asked for.
type step struct {
	Do    string `json:"do"`
	Batch int    `json:"batch,omitempty"`
	Due   int64  `json:"due,omitempty"` // Unix ms
}

// stepDone is what it answers. Times are in seconds since 1970.
type stepDone struct {
	Error   string  `json:"error"`
	Seconds float64 `json:"seconds"` // that submissions took
	First   float64 `json:"first"`   // start of the first handler
	Last    float64 `json:"last"`    // when the server was seen to have all tasks as ended
	Handled int     `json:"handled"` // calls of handlers
	Ended   int     `json:"ended"`   // tasks, as the server has them
}

// startPeer runs a program on a server until the end of the run, and waits until it has run half as many tasks as are
// measured.
func (b *bench) startPeer(ctx context.Context, argv []string, url string) (*peerProcess, error) {
	p := &peerProcess{}
	args := append(append([]string{}, argv[1:]...), url, strconv.Itoa(b.size.tasks), strconv.Itoa(b.size.tasks/2))
	p.cmd = exec.CommandContext(ctx, argv[0], args...)
	p.cmd.Stderr, p.cmd.SysProcAttr = &p.said, dieWithParent()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.steps, p.answers = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	b.cleanup(func() error {
		_ = p.steps.Close() // the program ends then
		_ = p.cmd.Wait()    // an error of it was the error of a step before
		return nil
	})
	_, err = p.answer()
	return p, err
}

// ask has the program take a step.
func (p *peerProcess) ask(s step) (stepDone, error) {
	line, err := json.Marshal(s)
	if err != nil {
		return stepDone{}, err
	}
	if _, err := p.steps.Write(append(line, '\n')); err != nil {
		return stepDone{}, fmt.Errorf("step %s: %w: %s", s.Do, err, p.said.String())
	}
	done, err := p.answer()
	if err != nil {
		return done, fmt.Errorf("step %s: %w", s.Do, err)
	}
	return done, nil
}

func (p *peerProcess) answer() (done stepDone, err error) {
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		_ = p.steps.Close()
		_ = p.cmd.Wait() // until all is read of what it said
		return done, fmt.Errorf("the program gave no answer: %w: %s", err, p.said.String())
	}
	if err := json.Unmarshal(line, &done); err != nil {
		return done, fmt.Errorf("the program answered %q: %w", line, err)
	}
	if done.Error != "" {
		return done, errors.New(done.Error)
	}
	return done, nil
}

// cpu is the CPU time that the program has used, in seconds.
func (p *peerProcess) cpu() (float64, error) {
	s, err := statOf(p.cmd.Process.Pid)
	return s.cpu, err
}

// instant is a time as programs tell it.
func instant(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
