// Package redistest gives tests a real Redis: a redis-server of their own, or several of them with Sentinel or as a
// cluster; a picture of everything in it; and a proxy that delays or cuts the way to it.
package redistest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// Server is a redis-server that lives as long as the test that started it. Its methods are meant for the
// test's own goroutine.
type Server struct {
	t       testing.TB
	binary  string
	dir     string
	port    int
	options []string // settings, each name with two hyphens before it
	mode    []string // arguments behind the file with the settings
	certs   *Certificates
	user    string // as whom URL connects, "" for the default user
	environ []string
	clock   string   // file with how far the clock is ahead; "" if it cannot be moved
	gateway *gateway // nil if it is reached at its own port
	admin   *redis.Client
	process *process
	output  output
}

// Option changes how the server is started.
type Option func(*Server)

// AOF makes the server write every command to its append-only file before it answers, so that what it has
// acknowledged is there again after Kill and Restart.
func AOF() Option { return With("--appendonly", "yes", "--appendfsync", "always") }

// With adds settings as redis-server takes them on its command line: With("--maxmemory", "8mb").
func With(settings ...string) Option {
	return func(s *Server) { s.options = append(s.options, settings...) }
}

// Environment adds variables, as NAME=value, to the environment of the server.
func Environment(variables ...string) Option {
	return func(s *Server) { s.environ = append(s.environ, variables...) }
}

// TLS makes the server take connections by TLS only, from those who have a certificate of the same authority.
func TLS(c *Certificates) Option {
	return func(s *Server) {
		s.certs = c
		With("--tls-ca-cert-file", c.CA, "--tls-cert-file", c.Cert, "--tls-key-file", c.Key,
			"--tls-replication", "yes", "--tls-cluster", "yes")(s)
	}
}

// secret is the password of every user of a server that asks for one.
const secret = "s3cret"

// User adds a user with these rights, as whom URL connects, and gives the default user, who may do everything, a password.
func User(name string, rules ...string) Option {
	return func(s *Server) {
		s.user = name
		With("--requirepass", secret, "--masterauth", secret)(s)
		With(append([]string{"--user", name, "on", ">" + secret}, rules...)...)(s)
	}
}

const installHint = "redis-server is not installed: run `make test`, which installs it, or install it yourself " +
	"(Debian and Ubuntu: apt-get install redis-server; macOS: brew install redis)"

// startTries is how many ports are tried: another process may take one between the look and the start.
const startTries = 10

// Start starts a redis-server on a free port of 127.0.0.1 with a data directory of its own, and waits until
// it answers. Nothing is kept on disk unless an option says so. The server ends with the test.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return startAt(t, FreePort, opts)
}

// startAt is Start with ports that freePort finds.
func startAt(t testing.TB, freePort func(testing.TB) int, opts []Option) *Server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(installHint)
	}
	s := &Server{t: t, binary: binary, dir: t.TempDir()}
	for _, o := range opts {
		o(s)
	}
	t.Cleanup(s.cleanup)
	for range startTries {
		s.port = freePort(t)
		if err = s.configure(); err != nil {
			break
		}
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		t.Fatalf("starting redis-server: %v", err)
	}
	return s
}

// host is where all servers of tests are.
const host = "127.0.0.1"

// Addr is host:port.
func (s *Server) Addr() string { return fmt.Sprintf("%s:%d", host, s.port) }

// URL is the server's address as redisx.Open and --redis take it.
func (s *Server) URL() string { return s.urlOf("redis", s.Addr()+"/0", url.Values{}) }

// urlOf is a URL with which the server's user reaches hosts: a scheme, to which TLS adds an s, the hosts with what follows them, and
// parameters, to which TLS adds the files.
func (s *Server) urlOf(scheme, hosts string, parameters url.Values) string {
	if s.certs != nil {
		scheme = strings.Replace(scheme, "redis", "rediss", 1)
		s.certs.name(parameters)
	}
	if s.user != "" {
		hosts = s.user + ":" + secret + "@" + hosts
	}
	if len(parameters) > 0 {
		hosts += "?" + parameters.Encode()
	}
	return scheme + "://" + hosts
}

// Admin returns a client of the default user, who may do everything. It is closed when the test ends.
func (s *Server) Admin() *redis.Client {
	s.t.Helper()
	if s.admin == nil {
		d := s.door()
		s.admin = redis.NewClient(&redis.Options{Addr: d.addr, Password: d.password, TLSConfig: d.tls, MaxRetries: -1})
		s.t.Cleanup(func() { _ = s.admin.Close() }) // its server may have gone before
	}
	return s.admin
}

// DB opens a client of its own to the server; it is closed when t ends.
func (s *Server) DB(t testing.TB) *redisx.DB {
	t.Helper()
	return Open(t, s.URL())
}

// Open opens a client to any Redis, a proxy's too; it is closed when t ends.
func Open(t testing.TB, url string) *redisx.DB {
	t.Helper()
	db, err := redisx.Open(t.Context(), redisx.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Errorf("closing the Redis client: %v", err)
		}
	})
	return db
}

// FillMemory limits the server's memory so that more than nine tenths of it are in use, with room for some small writes.
// The server makes the value that fills it: one that a client sends stays in that client's buffer for a while as well,
// and the memory in use falls again when the buffer is freed.
func (s *Server) FillMemory() {
	s.t.Helper()
	const filler, limit = 62 << 20, 70 << 20 // the allocator spends 64 MiB on the filler
	ctx, db := s.t.Context(), s.DB(s.t)
	if err := db.SetRange(ctx, "filler", filler-1, "x").Err(); err != nil {
		s.t.Fatal(err)
	}
	if err := db.ConfigSet(ctx, "maxmemory", strconv.Itoa(limit)).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// Pause stops the process where it stands (SIGSTOP): connections stay open and nobody answers.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
}

// Continue lets a paused server go on.
func (s *Server) Continue() {
	s.t.Helper()
	s.signal(syscall.SIGCONT)
}

// Kill ends the server at once, as a crash does (SIGKILL).
func (s *Server) Kill() {
	s.t.Helper()
	s.process.kill()
}

// Restart starts the server again on the same port and data directory, after Kill or, if it still runs,
// after a clean stop.
func (s *Server) Restart() {
	s.t.Helper()
	s.process.stop()
	if err := s.start(); err != nil {
		s.t.Fatalf("starting redis-server again: %v", err)
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatalf("sending %v to redis-server: %v", sig, err)
	}
}

// RefuseWrites has the server answer and refuse all writes, as a primary does that has lost its replicas, until TakeWrites.
func (s *Server) RefuseWrites() { s.requireReplicas("9") }

// TakeWrites ends RefuseWrites.
func (s *Server) TakeWrites() { s.requireReplicas("0") }

func (s *Server) requireReplicas(count string) {
	s.t.Helper()
	testkit.Must(s.t, s.Admin().ConfigSet(s.t.Context(), "min-replicas-to-write", count).Err())
}

// LockOut changes the password of the user of an option User, and ends its connections: those who know the old one get in no longer.
func (s *Server) LockOut() {
	s.t.Helper()
	s.setPassword("an0ther")
	testkit.Must(s.t, s.Admin().ClientKillByFilter(s.t.Context(), "user", s.user).Err())
}

// LetIn gives the user the password back that it had before LockOut.
func (s *Server) LetIn() {
	s.t.Helper()
	s.setPassword(secret)
}

func (s *Server) setPassword(password string) {
	s.t.Helper()
	testkit.Must(s.t, s.Admin().Do(s.t.Context(), "acl", "setuser", s.user, "resetpass", ">"+password).Err())
}

// cleanup ends the server by force: nothing of it is kept, and a clean stop takes up to 100 ms.
func (s *Server) cleanup() {
	if s.process != nil {
		s.process.kill()
	}
	if s.t.Failed() {
		s.t.Logf("output of redis-server at %s:\n%s", s.Addr(), s.output.String())
	}
}

// configure writes the file with the settings. The server itself changes it when its part in a deployment changes.
func (s *Server) configure() error {
	listen := []string{"--port", fmt.Sprint(s.port)}
	if s.certs != nil {
		listen = []string{"--port", "0", "--tls-port", fmt.Sprint(s.port)}
	}
	if s.gateway != nil {
		s.gateway.lead(s.Addr())
		listen = append(listen, s.gateway.settings(s.mode)...)
	}
	settings := slices.Concat(listen, []string{
		"--bind", host, "--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
	}, s.options)
	var text strings.Builder
	for _, word := range settings {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			text.WriteString("\n" + name)
		} else {
			fmt.Fprintf(&text, " %q", word)
		}
	}
	return os.WriteFile(s.file(), []byte(text.String()), 0o600)
}

func (s *Server) file() string { return filepath.Join(s.dir, "redis.conf") }

// door is where the server answers the default user.
func (s *Server) door() door {
	d := door{addr: s.Addr()}
	if s.certs != nil {
		d.tls = s.certs.config
	}
	if s.user != "" {
		d.password = secret
	}
	return d
}

// startLimit is how long a server may take until it answers.
const startLimit = 20 * time.Second

func (s *Server) start() error {
	s.output.mark()
	p, err := launch(s.binary, append([]string{s.file()}, s.mode...), s.environ, &s.output)
	if err != nil {
		return err
	}
	s.process = p
	if err := p.awaitAnswer(s.door(), startLimit); err != nil {
		p.kill()
		return s.explain(err)
	}
	return nil
}

var errPortTaken = errors.New("the port is taken")

// explain adds to err what the server said since it was started.
func (s *Server) explain(err error) error {
	said := s.output.sinceMark()
	if strings.Contains(said, "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("%w; it said:\n%s", err, said)
}
