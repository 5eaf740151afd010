package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of the settings.
const (
	nameLimit        = 200 // characters of a queue's or pool's name, as for tasks
	prefixLimit      = 50  // it is part of every key
	basePathLimit    = 200 // it is part of every link
	concurrencyLimit = 10_000
	weightLimit      = 1000
	poolsLimit       = 50
	tasksLimit       = 100_000_000
	submissionsLimit = 1_000_000
	connectionsLimit = 1_000_000
	streamsLimit     = 100_000
	transferLeast    = Size(32 << 20) // one address gets a half: the largest body, and as much that is under way beside it
	transferMost     = Size(1 << 40)
)

// PartitionsLimit is the most partitions that an installation has.
const PartitionsLimit = 1024

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Validate says everything that is invalid about the settings, each with its name and what would be valid.
func (c Config) Validate() error {
	return errors.Join(
		c.Redis.validate(),
		checkPrefix(c.Prefix),
		c.Roles.validate(),
		checkListen("listen", c.Listen),
		checkBasePath("base-path", c.BasePath),
		c.AllowedHosts.validate("allowed-hosts"),
		c.checkNode(),
		c.Labels.validate("labels"),
		checkRange("concurrency", c.Concurrency, 1, concurrencyLimit),
		c.Queues.validate("queues"),
		c.checkPools(),
		CheckSpan("drain-timeout", c.DrainTimeout, 0, 24*time.Hour),
		CheckSpan("outage-tolerance", c.OutageTolerance, 0, 24*time.Hour),
		CheckSpan("lease-ttl", c.LeaseTTL, time.Second, time.Minute),
		CheckSpan("heartbeat", c.Heartbeat, 100*time.Millisecond, time.Minute),
		checkRange("max-submissions", c.MaxSubmissions, 1, submissionsLimit),
		checkRange("max-workers-per-address", c.MaxWorkersPerAddress, 1, WorkersLimit),
		c.checkTransfer(),
		checkRange("max-connections-per-address", c.MaxConnectionsPerAddress, 0, connectionsLimit),
		checkRange("max-streams", c.MaxStreams, 1, streamsLimit),
		checkRange("max-streams-per-address", c.MaxStreamsPerAddress, 1, streamsLimit),
		checkRange("partitions", c.Partitions, 0, PartitionsLimit),
		checkRange("hand-over", c.HandOver, 1, 1000),
		checkRange("retention-max-tasks", c.RetentionMaxTasks, 1, tasksLimit),
		CheckSpan("remember", c.Remember, 0, 30*24*time.Hour),
		checkRange("remember-max-ids", c.RememberMaxIDs, 0, tasksLimit),
		c.checkMonitor(),
		c.checkDebug(),
		checkChoice("log-format", c.LogFormat, LogText, LogJSON),
	)
}

func (u URL) validate() error { return u.Validate("redis") }

// Validate checks the address of a Redis. The error names the setting.
func (u URL) Validate(setting string) error {
	scheme, rest, _ := strings.Cut(string(u), "://")
	if u.Embedded() {
		return nil
	}
	if !slices.Contains(redisSchemes, scheme) {
		return fmt.Errorf("%s: %q must begin with %s://", setting, u, strings.Join(redisSchemes, "://, "))
	}
	host := rest[strings.LastIndex(rest, "@")+1:]
	if host == "" || scheme != "unix" && strings.HasPrefix(host, "/") {
		return fmt.Errorf("%s: %q names no host; write it as redis://host:6379/0", setting, u)
	}
	return nil
}

func (r Roles) validate() error {
	if len(r) == 0 {
		return errors.New("roles: name at least one of scheduler, worker, api")
	}
	for i, role := range r {
		if err := checkChoice("roles", role, RoleScheduler, RoleWorker, RoleAPI); err != nil {
			return err
		}
		if slices.Contains(r[:i], role) {
			return fmt.Errorf("roles: %s is named twice", role)
		}
	}
	return nil
}

func checkListen(setting, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %q must be HOST:PORT, as in 127.0.0.1:8080, or :8080 for all addresses", setting, address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%s: the port of %q must be a number from 0 to 65535", setting, address)
	}
	return nil
}

// basePath has parts that mean the same in a link, in a cookie and in a path that is not escaped.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

func checkBasePath(setting, path string) error {
	if !basePath.MatchString(path) || len(path) > basePathLimit {
		return fmt.Errorf("%s: %q must be a path of at most %d characters of A-Z a-z 0-9 . _ -, as in /dts or /tools/dts, "+
			"without a slash at the end", setting, path, basePathLimit)
	}
	return nil
}

func (c Config) checkNode() error {
	if c.NodeName != "" {
		if err := checkName("node-name", c.NodeName, nameLimit); err != nil {
			return err
		}
	}
	if c.NodeIP != "" && net.ParseIP(c.NodeIP) == nil {
		return fmt.Errorf("node-ip: %q must be an IP address, as in 10.0.0.7", c.NodeIP)
	}
	return nil
}

func (q Queues) validate(setting string) error {
	if len(q) == 0 {
		return fmt.Errorf("%s: name at least one queue, as in default=1", setting)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if err := checkName(setting, name, nameLimit); err != nil {
			return err
		}
		if err := checkRange(fmt.Sprintf("%s: the weight of %s", setting, name), q[name], 1, weightLimit); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) checkPools() error {
	if len(c.Pools) > poolsLimit {
		return fmt.Errorf("pool: %d pools are set; must be at most %d", len(c.Pools), poolsLimit)
	}
	seen := map[string]bool{DefaultPool: true}
	for _, p := range c.Pools {
		if err := checkName("pool", p.Name, nameLimit); err != nil {
			return err
		}
		setting := "pool " + p.Name
		if seen[p.Name] {
			return fmt.Errorf("%s: the name is taken (%s is the pool of --concurrency and --queues)", setting, DefaultPool)
		}
		seen[p.Name] = true
		if p.Concurrency < 1 || p.Concurrency > c.Concurrency {
			return fmt.Errorf("%s: its concurrency is %d and must be 1 to %d, the concurrency of the node", setting, p.Concurrency, c.Concurrency)
		}
		if err := p.Queues.validate(setting); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) checkTransfer() error {
	if c.TransferMemory < transferLeast || c.TransferMemory > transferMost {
		return fmt.Errorf("transfer-memory: %s must be %s to %s", c.TransferMemory, transferLeast, transferMost)
	}
	return nil
}

func (c Config) checkMonitor() error {
	if c.MonitorWritable && !c.Monitor {
		return errors.New("monitor-writable: needs monitor, which is off")
	}
	return nil
}

// checkDebug checks the address of the profiles: a profile tells much, and taking one costs CPU.
func (c Config) checkDebug() error {
	if c.DebugListen == "" {
		return nil
	}
	return CheckLoopback("debug-listen", c.DebugListen)
}

// CheckLoopback refuses addresses to listen at that other machines can reach, or that are none.
func CheckLoopback(setting, address string) error {
	if !isLoopback(address) {
		return fmt.Errorf("%s: %q must be HOST:PORT with a loopback address, as in 127.0.0.1:6060: other machines must not reach it", setting, address)
	}
	return checkListen(setting, address)
}

func checkName(setting, name string, limit int) error {
	if len(name) > limit || !namePattern.MatchString(name) {
		return fmt.Errorf("%s: %q must be 1 to %d of A-Z a-z 0-9 . _ -", setting, name, limit)
	}
	return nil
}

// checkPrefix refuses the dot, which separates the prefix from the name of a queue in asynq.
func checkPrefix(prefix string) error {
	if strings.Contains(prefix, ".") {
		return fmt.Errorf("prefix: %q must be 1 to %d of A-Z a-z 0-9 _ -", prefix, prefixLimit)
	}
	return checkName("prefix", prefix, prefixLimit)
}

func checkRange(setting string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s: %d must be %d to %d", setting, n, least, most)
	}
	return nil
}

// CheckSpan says that a duration is not within its limits, both included, or not in whole milliseconds.
func CheckSpan(setting string, d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("%s: %s must be %s to %s", setting, d, least, most)
	}
	if d%time.Millisecond != 0 {
		return fmt.Errorf("%s: %s is not a whole number of milliseconds", setting, d)
	}
	return nil
}

func checkChoice(setting, value string, choices ...string) error {
	if !slices.Contains(choices, value) {
		return fmt.Errorf("%s: %q must be one of %s", setting, value, strings.Join(choices, ", "))
	}
	return nil
}
