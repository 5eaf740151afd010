package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one run of redis-server, reached only through its own handle.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it has ended and all its output is in
}

// launch starts redis-server; environ is added to the environment of the test.
func launch(binary string, args, environ []string, out io.Writer) (*process, error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // it is always ended by a signal; how is of no interest
	}()
	return p, nil
}

// stopLimit is how long a server may take for a clean end.
const stopLimit = 5 * time.Second

// stop ends the process and waits for its end: asking first, then by force. A paused one is woken, so that
// it hears the question.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended already
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	patience := time.NewTimer(stopLimit)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
		p.kill()
	}
}

// kill ends the process by force, a paused one too, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.exited
}

// awaitAnswer polls until this very process answers.
func (p *process) awaitAnswer(d door, limit time.Duration) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := p.ask(d)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return errors.New("redis-server ended at once")
		case <-deadline.C:
			return fmt.Errorf("redis-server does not answer after %s: %w", limit, err)
		case <-again.C:
		}
	}
}

// door is where a server answers, and what it asks of those who enter.
type door struct {
	addr     string
	tls      *tls.Config // nil for none
	password string      // of the default user, "" for none
}

func (d door) open() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	if d.tls == nil {
		return dialer.Dial("tcp", d.addr)
	}
	return tls.DialWithDialer(dialer, "tcp", d.addr, d.tls)
}

// ask sends PING and compares process ids, since somebody else's server may listen there.
func (p *process) ask(d door) error {
	conn, err := d.open()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer is in, or the error is
	giveUp := time.AfterFunc(time.Second, func() { _ = conn.Close() })
	defer giveUp.Stop()
	question := "PING\r\nINFO server\r\n"
	if d.password != "" {
		question = "AUTH " + d.password + "\r\n" + question
	}
	if _, err := io.WriteString(conn, question); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	if d.password != "" && (!lines.Scan() || lines.Text() != "+OK") {
		return fmt.Errorf("AUTH was answered by %q", lines.Text())
	}
	if !lines.Scan() || lines.Text() != "+PONG" {
		return fmt.Errorf("PING was answered by %q", lines.Text())
	}
	for lines.Scan() {
		if pid, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			if pid != fmt.Sprint(p.cmd.Process.Pid) {
				return fmt.Errorf("process %s answers at %s, not ours", pid, d.addr)
			}
			return nil
		}
	}
	return errors.New("INFO was not answered")
}

// output collects what the server says; it is written by another goroutine than the test's.
type output struct {
	mu     sync.Mutex
	text   strings.Builder
	marked int
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) mark() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.marked = o.text.Len()
}

func (o *output) sinceMark() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()[o.marked:]
}
