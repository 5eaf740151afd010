package api

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// monitor is a connection on which Redis tells the commands that it gets, and those of scripts.
type monitor struct {
	r     *rig
	lines *bufio.Reader
}

func newMonitor(r *rig) *monitor {
	r.t.Helper()
	conn, err := new(net.Dialer).DialContext(r.ctx, "tcp", r.redis.Addr())
	testkit.Must(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte("MONITOR\r\n"))
	testkit.Must(r.t, err)
	m := &monitor{r, bufio.NewReader(conn)}
	m.line() // +OK
	return m
}

func (m *monitor) line() string {
	m.r.t.Helper()
	line, err := m.lines.ReadString('\n')
	testkit.Must(m.r.t, err)
	return line
}

// during returns the commands that Redis got while do ran.
func (m *monitor) during(do func()) commands {
	m.r.t.Helper()
	const end = "the end of a read"
	do()
	testkit.Must(m.r.t, m.r.db.Echo(context.WithoutCancel(m.r.ctx), end).Err())
	var all strings.Builder
	for line := m.line(); !strings.Contains(line, end); line = m.line() {
		all.WriteString(line)
	}
	return commands(all.String())
}

// commands are some, as a monitor tells them.
type commands string

// name reports whether one of the commands names a key.
func (c commands) name(key string) bool { return strings.Contains(string(c), strconv.Quote(key)) }

func TestMonitor_TellsTheKeysOfScripts(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	m := newMonitor(r)
	got := m.during(func() {
		testkit.Must(t, r.db.Eval(r.ctx, "return redis.call('SET', 'dts:{0}:' .. ARGV[1], 1)", nil, "key").Err())
	})
	if !got.name("dts:{0}:key") || got.name("dts:{0}") {
		t.Errorf("got %s", got)
	}
	if got := m.during(func() {}); got.name("dts:{0}:key") {
		t.Errorf("later, it still has %s", got)
	}
}
