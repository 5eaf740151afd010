package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/lua"
)

// redisServer is the redis-server that all rows share, reached by the bench's own client.
type redisServer struct {
	cmd  *exec.Cmd
	dir  string
	addr string
	db   *redis.Client
	past time.Duration // CPU time of processes that restart has killed
}

// redisStartTries is how many ports are tried: another process may take one between the look and the start.
const redisStartTries = 10

// startRedis starts a redis-server on a free port with a data directory of its own. Nothing is written to disk.
func startRedis(ctx context.Context) (*redisServer, error) {
	dir, err := os.MkdirTemp("", "dts-bench-")
	if err != nil {
		return nil, err
	}
	for range redisStartTries {
		var s *redisServer
		if s, err = launchRedis(ctx, dir); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("starting redis-server: %w", err), os.RemoveAll(dir))
}

func launchRedis(ctx context.Context, dir string, settings ...string) (*redisServer, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	s := &redisServer{dir: dir, addr: fmt.Sprintf("127.0.0.1:%d", port)}
	s.db = redis.NewClient(&redis.Options{Addr: s.addr, ContextTimeoutEnabled: true})
	if err := s.launch(ctx, append(settings, "--appendonly", "no")...); err != nil {
		s.kill()
		return nil, err
	}
	return s, nil
}

// launch starts the process and waits until it answers.
func (s *redisServer) launch(ctx context.Context, settings ...string) error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--save", "", "--daemonize", "no", "--loglevel", "warning"}, settings...)
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), "redis-server", args...)
	s.cmd.SysProcAttr = dieWithParent()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	return s.await(ctx)
}

// restart kills the server, which has an append-only file, and starts it again after a time.
func (s *redisServer) restart(ctx context.Context, after time.Duration) error {
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = s.cmd.Wait() // it says that the process was killed
	s.past += s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
	if err := clock.Sleep(ctx, after); err != nil {
		return err
	}
	return s.launch(ctx, "--appendonly", "yes")
}

// freePort finds a port that nobody listens on at the moment.
func freePort(ctx context.Context) (int, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// await waits until this very process answers: somebody else's server may listen there.
func (s *redisServer) await(ctx context.Context) error {
	return poll(ctx, 5*time.Millisecond, 10*time.Second, "redis-server to answer", func(ctx context.Context) (bool, error) {
		info, err := s.info(ctx, "server")
		return err == nil && info["process_id"] == strconv.Itoa(s.cmd.Process.Pid), nil
	})
}

// kill ends the server by its own handle.
func (s *redisServer) kill() {
	_ = s.db.Close()
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// stop ends the server and removes its directory.
func (s *redisServer) stop() error {
	s.kill()
	return os.RemoveAll(s.dir)
}

// url is the address as DTS takes it.
func (s *redisServer) url() string { return "redis://" + s.addr + "/0" }

// flush empties the server and sets what rows may have changed back to Redis's defaults.
func (s *redisServer) flush(ctx context.Context) error {
	pipe := s.db.Pipeline()
	pipe.FlushAll(ctx)
	pipe.ConfigSet(ctx, "hash-max-listpack-value", "64")
	_, err := pipe.Exec(ctx)
	return err
}

// info reads a section of INFO.
func (s *redisServer) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.db.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// awaitIndexed waits until the rows of all tasks are in the index of lists.
func (s *redisServer) awaitIndexed(ctx context.Context) error {
	return poll(ctx, 100*time.Millisecond, time.Minute, "the index of lists", func(ctx context.Context) (bool, error) {
		for p := range partitions {
			list := string(lua.NewKeyspace("", 0).Partition(p).ListedNew())
			if noted, err := s.db.LLen(ctx, list).Result(); err != nil || noted != 1 { // the first entry is no task
				return false, err
			}
		}
		return true, nil
	})
}

// number reads one numeric field of INFO.
func (s *redisServer) number(ctx context.Context, section, field string) (float64, error) {
	info, err := s.info(ctx, section)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info[field], 64)
}

// cpu is the CPU time that the server has used, in seconds.
func (s *redisServer) cpu(ctx context.Context) (float64, error) {
	user, err := s.number(ctx, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	sys, err := s.number(ctx, "cpu", "used_cpu_sys")
	return s.past.Seconds() + user + sys, err
}

// watchCommands calls seen with each command of clients that Redis runs during f, as SLOWLOG has it, and its time there.
func (s *redisServer) watchCommands(ctx context.Context, f func() error, seen func(args []string, took time.Duration)) (err error) {
	const commands = 1 << 20 // that are kept
	set := func(slowerThan, kept string) error {
		pipe := s.db.Pipeline()
		pipe.ConfigSet(ctx, "slowlog-log-slower-than", slowerThan)
		pipe.ConfigSet(ctx, "slowlog-max-len", kept)
		_, err := pipe.Exec(ctx)
		return err
	}
	if err := set("0", strconv.Itoa(commands)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set("10000", "128"), s.db.Do(ctx, "SLOWLOG", "RESET").Err()) }()
	if err := f(); err != nil {
		return err
	}
	log, err := s.db.SlowLogGet(ctx, -1).Result()
	for _, entry := range log {
		seen(entry.Args, entry.Duration)
	}
	return err
}

// memory is the memory that the server uses, in bytes.
func (s *redisServer) memory(ctx context.Context) (float64, error) {
	return s.number(ctx, "memory", "used_memory")
}

// load is what a window costs Redis: commands and CPU time a second. took is its length in s.
type load struct{ commands, cpu, took float64 }

// beyond returns what one of n tasks of a window cost beyond another load that goes on meanwhile: commands, and CPU time in us.
func (l load) beyond(other load, n int) (commands, cpu float64) {
	tasks := float64(max(n, 1))
	return (l.commands - other.commands) * l.took / tasks, (l.cpu - other.cpu) * l.took / tasks * 1e6
}

// window measures the load of Redis over d.
func (s *redisServer) window(ctx context.Context, d time.Duration) (load, error) {
	return s.during(ctx, func() error { return clock.Sleep(ctx, d) })
}

// during measures the load of Redis while f runs.
func (s *redisServer) during(ctx context.Context, f func() error) (load, error) {
	commands, err := s.number(ctx, "stats", "total_commands_processed")
	if err != nil {
		return load{}, err
	}
	cpu, err := s.cpu(ctx)
	if err != nil {
		return load{}, err
	}
	start := clock.Now()
	if err := f(); err != nil {
		return load{}, err
	}
	took := clock.Since(start).Seconds()
	cpuAfter, err := s.cpu(ctx)
	if err != nil {
		return load{}, err
	}
	after, err := s.number(ctx, "stats", "total_commands_processed")
	if err != nil {
		return load{}, err
	}
	const own = 5 // the INFO calls of this function that lie between the two readings
	return load{commands: max(0, after-commands-own) / took, cpu: (cpuAfter - cpu) / took, took: took}, nil
}

// countsScripts finds out whether total_commands_processed counts the commands that scripts run.
func (s *redisServer) countsScripts(ctx context.Context) (bool, error) {
	const inside = 100
	before, err := s.number(ctx, "stats", "total_commands_processed")
	if err != nil {
		return false, err
	}
	if err := s.db.Eval(ctx, "for i = 1, ARGV[1] do redis.call('PING') end return 1", nil, inside).Err(); err != nil {
		return false, err
	}
	after, err := s.number(ctx, "stats", "total_commands_processed")
	return after-before >= inside, err
}
