package redistest_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

func isOpen(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, command string) {
	t.Helper()
	_, err := io.WriteString(c, command+"\r\n")
	testkit.Must(t, err)
}

func TestProxy_PassesCommandsAndAnswers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr())
	testkit.Must(t, redistest.Open(t, p.URL()).Set(t.Context(), "k", "v", 0).Err())
	if got := get(t, srv.DB(t), "k"); got != "v" {
		t.Errorf("the server has %q, want v", got)
	}
}

func TestProxy_ReleaseDeliversHeldCommandsEvenOfClientsThatLeft(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr())
	stays, leaves := dial(t, p.Addr()), dial(t, p.Addr())
	for _, c := range []net.Conn{stays, leaves} { // both are through to the server
		send(t, c, "PING")
		_, err := io.ReadFull(c, make([]byte, len("+PONG\r\n")))
		testkit.Must(t, err)
	}

	p.Hold()
	send(t, stays, "SET stayed 1")
	send(t, leaves, "SET left 1")
	testkit.Must(t, leaves.Close())
	testkit.Eventually(t, "both commands are held", func() bool {
		held := p.Held()
		return bytes.Contains(held, []byte("stayed")) && bytes.Contains(held, []byte("left"))
	})
	if n := srv.DB(t).DBSize(t.Context()).Val(); n != 0 {
		t.Fatalf("%d held commands arrived", n)
	}

	p.Release()
	db := srv.DB(t)
	testkit.Eventually(t, "both commands have run", func() bool { return db.DBSize(t.Context()).Val() == 2 })
	if held := p.Held(); len(held) != 0 {
		t.Errorf("%q is held after Release", held)
	}
}

func TestProxy_PassesAnswersWhileCommandsAreHeld(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr())
	sub := redistest.Open(t, p.URL()).Subscribe(t.Context(), "news")
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(t.Context())
	testkit.Must(t, err)

	p.Hold()
	testkit.Must(t, srv.DB(t).Publish(t.Context(), "news", "hello").Err())
	got, err := sub.ReceiveMessage(t.Context())
	testkit.Must(t, err)
	if got.Payload != "hello" {
		t.Errorf("received %q, want hello", got.Payload)
	}
}

func TestProxy_CutClosesConnectionsUntilMend(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr())
	c := dial(t, p.Addr())
	p.Cut()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("a cut connection delivered %d bytes", n)
	}
	if n, err := dial(t, p.Addr()).Read(make([]byte, 1)); err == nil {
		t.Errorf("a cut proxy delivered %d bytes", n)
	}
	p.Mend()
	testkit.Must(t, redistest.Open(t, p.URL()).Ping(t.Context()).Err())
}

func TestProxy_DropsAnswersOfCommandsThatWereExecuted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr())
	p.DropAnswers(2)
	c := dial(t, p.Addr())
	send(t, c, "INCR n")
	_, err := io.ReadFull(c, make([]byte, len(":1\r\n")))
	testkit.Must(t, err)
	send(t, c, "INCR n")
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("the second answer has arrived: %d bytes", n)
	}
	if got := get(t, srv.DB(t), "n"); got != "2" {
		t.Errorf("the server has counted to %s, want 2", got)
	}
	p.Mend()
	testkit.Must(t, redistest.Open(t, p.URL()).Ping(t.Context()).Err())
}

func TestProxy_ClientsNoticeThatTheServerIsGone(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.NewProxy(t, srv.Addr())
	c := dial(t, p.Addr())
	srv.Kill()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	srv.Restart()
	testkit.Must(t, redistest.Open(t, p.URL()).Ping(t.Context()).Err())
}
