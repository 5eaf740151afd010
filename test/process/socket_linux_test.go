package process_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

func TestSocketAt_NamesTheSocketOfTheClient(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	client, err := net.Dial("tcp4", l.Addr().String())
	testkit.Must(t, err)
	server, err := l.Accept()
	testkit.Must(t, err)
	raw, err := client.(*net.TCPConn).SyscallConn()
	testkit.Must(t, err)
	var of syscall.Stat_t
	testkit.Must(t, raw.Control(func(fd uintptr) { err = syscall.Fstat(int(fd), &of) }))
	testkit.Must(t, err)
	if name, err := process.SocketAt(server); err != nil || name != fmt.Sprintf("socket:[%d]", of.Ino) {
		t.Errorf("it is %q, %v; want socket:[%d]", name, err, of.Ino)
	}
	testkit.Must(t, client.Close())
	testkit.Must(t, server.Close())
	if name, err := process.SocketAt(server); err == nil && name != "socket:[0]" {
		t.Errorf("the socket of a closed connection is %q", name)
	}
}
