package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

// conditions are what the figures depend on.
type conditions struct {
	cpu     string
	cores   int
	memory  string
	kernel  string
	golang  string
	redis   string
	asynq   string
	commit  string
	date    string
	scripts bool // total_commands_processed counts commands inside scripts
}

func (b *bench) conditions(ctx context.Context) (conditions, error) {
	server, err := b.redis.info(ctx, "server")
	if err != nil {
		return conditions{}, err
	}
	c := conditions{
		cpu: field("/proc/cpuinfo", "model name"), cores: runtime.NumCPU(), memory: field("/proc/meminfo", "MemTotal"),
		kernel: runtime.GOOS, golang: runtime.Version(), redis: server["redis_version"], asynq: moduleVersion("github.com/hibiken/asynq"),
		commit: b.commit(ctx), date: clock.Now().UTC().Format(time.DateTime) + " UTC",
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		c.kernel += " " + strings.TrimSpace(string(release))
	}
	var kib int64
	if _, err := fmt.Sscanf(c.memory, "%d kB", &kib); err == nil {
		c.memory = fmt.Sprintf("%.1f GiB", float64(kib)/(1<<20))
	}
	c.scripts, err = b.redis.countsScripts(ctx)
	return c, err
}

// field returns the first value of a field in a file of lines "name : value"; "unknown" if there is none.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// moduleVersion is the version of a module in this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}

// commit names the commit of the repository, with "+" if the code differs from it.
func (b *bench) commit(ctx context.Context) string {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = b.root
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	id, err := git("rev-parse", "--short", "HEAD")
	if err != nil {
		return "unknown"
	}
	if changes, err := git("status", "--porcelain", "--", "*.go", "*.lua", "*go.mod"); err == nil && changes != "" {
		id += "+"
	}
	return id
}

// selfCPU is the CPU time that this process has used, in seconds.
func selfCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// usage is the CPU time of the machine's processors up to a moment, in seconds.
type usage struct {
	total, busy float64 // 0 where the machine does not tell
	ours        float64 // of this process and of all that it has started
}

func readUsage() usage {
	var u usage
	var err error
	if u.ours, err = familyCPU(os.Getpid()); err != nil {
		u.ours = selfCPU()
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	line, _, _ := strings.Cut(string(text), "\n")
	const ticks = 100 // a second
	// user, nice, system, idle, waiting for disks, interrupts (two kinds: of the connections of the bench, too), stolen by the
	// host; what follows is counted in the first two.
	busy := [8]bool{true, true, true, false, false, false, false, true}
	for i, word := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || i >= len(busy) {
			break
		}
		u.total += v / ticks
		if busy[i] {
			u.busy += v / ticks
		}
	}
	return u
}

// others is the share of the machine that other processes used between two moments.
func (u usage) others(later usage) float64 {
	if later.total <= u.total {
		return 0
	}
	return max(0, (later.busy-u.busy)-(later.ours-u.ours)) / (later.total - u.total)
}
