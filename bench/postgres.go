package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postgresSettings are those that differ from PostgreSQL's own, raised as for a busy queue. The rest is as it comes,
// with fsync and synchronous_commit on.
var postgresSettings = []string{"shared_buffers=1GB", "max_wal_size=4GB", "max_connections=200"}

// postgresServer is a PostgreSQL with a data directory of its own.
type postgresServer struct {
	cmd    *exec.Cmd
	dir    string
	port   int
	setUp  float64 // CPU time of initdb, in seconds
	output safeBuffer
}

// postgresPrograms returns the directory of initdb and postgres, of the newest version that is installed. Error:
// there is none.
func postgresPrograms() (string, error) {
	versions, err := filepath.Glob("/usr/lib/postgresql/*/bin") // where Debian has them, outside of the path
	if err != nil {
		return "", err
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, dir := range append(newestFirst(versions), dirs...) {
		if isFile(filepath.Join(dir, "initdb")) && isFile(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", errors.New("there are no initdb and postgres in the path or in /usr/lib/postgresql")
}

// newestFirst sorts directories like /usr/lib/postgresql/15/bin by their version.
func newestFirst(dirs []string) []string {
	version := func(dir string) float64 {
		v, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(dir)), 64) // 0 for what is no version
		return v
	}
	sorted := slices.Clone(dirs)
	slices.SortFunc(sorted, func(a, b string) int { return int(version(b)*100 - version(a)*100) })
	return sorted
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// postgresUser is as whom PostgreSQL runs: the user of this process (nil) or, since it refuses to run as root, Debian's
// user postgres. Error: this process is root's, and there is no user postgres.
func postgresUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// runningAs is dieWithParent for a process of a user, or of that of this process if as is nil.
func runningAs(as *syscall.Credential) *syscall.SysProcAttr {
	attributes := cmp.Or(dieWithParent(), &syscall.SysProcAttr{})
	attributes.Credential = as
	return attributes
}

// startPostgres starts a new, empty PostgreSQL on a free port.
func startPostgres(ctx context.Context, settings ...string) (_ *postgresServer, err error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	as, err := postgresUser()
	if err != nil {
		return nil, err
	}
	s := &postgresServer{}
	if s.dir, err = os.MkdirTemp("", "dts-bench-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if as != nil {
		if err := os.Chown(s.dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	if s.port, err = freePort(ctx); err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	init := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "--pgdata", data, "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	init.Dir, init.SysProcAttr = s.dir, runningAs(as)
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	s.setUp = usedBy(init.ProcessState)
	args := []string{"-D", data, "-p", strconv.Itoa(s.port)}
	own := []string{"listen_addresses=127.0.0.1", "unix_socket_directories=" + s.dir}
	for _, setting := range slices.Concat(own, postgresSettings, settings) {
		args = append(args, "-c", setting)
	}
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(programs, "postgres"), args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = s.dir, &s.output, &s.output, runningAs(as)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	return s, s.await(ctx)
}

// await waits until this very process takes connections: it says so in its own directory.
func (s *postgresServer) await(ctx context.Context) error {
	err := poll(ctx, 10*time.Millisecond, time.Minute, "postgres to be ready", func(context.Context) (bool, error) {
		text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		const status = 7 // the line after pid, directory, start, port, sockets, address and memory
		lines := strings.Split(string(text), "\n")
		return len(lines) > status && strings.TrimSpace(lines[status]) == "ready", err
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, s.output.String())
	}
	return nil
}

func (s *postgresServer) url() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", s.port)
}

// cpu is the CPU time of all processes of the server, in seconds.
func (s *postgresServer) cpu(context.Context) (float64, error) {
	used, err := familyCPU(s.cmd.Process.Pid)
	return s.setUp + used, err
}

// stop ends the server and removes its directory.
func (s *postgresServer) stop() error {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGINT) // a fast shutdown: sessions are ended
		_ = s.cmd.Wait()
	}
	return os.RemoveAll(s.dir)
}
