package redistest

import (
	"errors"
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

// listenLocal listens on a free port of 127.0.0.1, which is reserved for the test.
func listenLocal(t testing.TB) net.Listener {
	t.Helper()
	var last error
	for range portTries {
		l, err := listenOn(t, lowestPort+rand.IntN(highestPort-lowestPort+1))
		if err == nil {
			return l
		}
		last = err
	}
	t.Fatalf("no free port on 127.0.0.1 after %d tries: %v", portTries, last)
	return nil
}

// listenOn listens on a port of 127.0.0.1, and reserves it until the test ends: nobody else takes it while its server is killed. The reservation is a
// socket of UDP, which the servers of tests do not use, and which the tests of other processes find taken. Error: somebody has the port.
func listenOn(t testing.TB, port int) (net.Listener, error) {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	reservation, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(err, reservation.Close())
	}
	t.Cleanup(func() {
		if err := reservation.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, nil
}

// FreePort finds a port that nobody listens on, and reserves it for the test.
func FreePort(t testing.TB) int {
	t.Helper()
	l := listenLocal(t)
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}
