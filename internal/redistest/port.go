package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports are taken from below the range that systems hand out to outgoing connections. From that range, the
// port of a killed server could be gone at its restart, taken by somebody's outgoing connection.
const (
	lowestPort  = 20000
	highestPort = 31999
	portTries   = 200
)

// listenLocal listens on a free port of 127.0.0.1.
func listenLocal(t testing.TB) net.Listener {
	t.Helper()
	var last error
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return l
		}
		last = err
	}
	t.Fatalf("no free port on 127.0.0.1 after %d tries: %v", portTries, last)
	return nil
}

// FreePort finds a port nobody listens on at the moment.
func FreePort(t testing.TB) int {
	t.Helper()
	l := listenLocal(t)
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}
