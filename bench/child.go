package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
)

// child is a node of DTS in a process of its own.
type child struct {
	cmd    *exec.Cmd
	url    string
	client *client.ClientWithResponses
	output safeBuffer
	ended  chan struct{}
}

// safeBuffer keeps what a child says.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends.
func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is everything so far.
func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// buildDaemon builds dtsd once.
func (b *bench) buildDaemon(ctx context.Context) error {
	if b.dtsd != "" {
		return nil
	}
	binary := filepath.Join(b.redis.dir, "dtsd")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/dtsd")
	cmd.Dir, cmd.Stderr = b.root, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building dtsd: %w", err)
	}
	b.dtsd = binary
	return nil
}

// startChild runs `dtsd serve` with default settings and some more until the end of the round, and waits until it is
// ready.
func (b *bench) startChild(ctx context.Context, settings ...string) (*child, error) {
	if err := b.buildDaemon(ctx); err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	c := &child{url: "http://" + addr, ended: make(chan struct{})}
	args := append([]string{"serve", "--redis", b.redis.url(), "--listen", addr, "--log-level", "error"}, settings...)
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), b.dtsd, args...)
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	c.cmd.SysProcAttr = dieWithParent()
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { defer close(c.ended); _ = c.cmd.Wait() }()
	b.cleanup(func() error { c.kill(); return nil })
	if c.client, err = client.NewClientWithResponses(c.url, client.WithHTTPClient(callers)); err != nil {
		return nil, err
	}
	err = poll(ctx, 20*time.Millisecond, 20*time.Second, "dtsd to be ready", func(ctx context.Context) (bool, error) {
		select {
		case <-c.ended:
			return false, fmt.Errorf("dtsd ended: %s", c.output.String())
		default:
		}
		answer, err := c.client.ReadyzWithResponse(ctx)
		return err == nil && answer.StatusCode() == http.StatusOK, nil
	})
	return c, err
}

// kill ends the process at once, as a crash does.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// stop ends the process cleanly, and waits for that.
func (c *child) stop(ctx context.Context) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
