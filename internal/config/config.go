// Package config holds the settings of dtsd and finds their values: a flag beats the environment, which beats the
// configuration file, which beats the default.
//
// Every setting has one name, which is that of its flag. `--lease-ttl` is DTS_LEASE_TTL in the environment, and
// `lease-ttl` or `lease_ttl` in the file. An unknown name is an error everywhere, so that a misspelled setting does not
// silently keep its default.
package config

import (
	"log/slog"
	"net"
	"runtime"
	"slices"
	"time"
)

// The roles a node can have.
const (
	RoleScheduler = "scheduler"
	RoleWorker    = "worker"
	RoleAPI       = "api"
)

// DefaultPool is the name of the pool that --concurrency and --queues describe; every worker has it.
const DefaultPool = "default"

// The formats of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// Config holds all settings of one node, except those of a Section.
type Config struct {
	Redis  URL    // address of Redis
	Prefix string // prefix of all keys
	Roles  Roles
	Listen string // host:port of the API, the metrics and the health checks
	// BasePath is in front of the paths of all that Listen serves, as in /dts; "" for none. Metrics and health checks are
	// served without it, too.
	BasePath string
	// AllowedHosts are names by which the node is reached. If there are none, a node at a loopback address answers to localhost only, and
	// others to any name.
	AllowedHosts Hosts

	NodeName string // in the list of nodes, the same after a restart; "" means the host name of the machine
	Labels   Labels // of the node, besides those that it has by itself
	NodeIP   string // IP address in the list of nodes; "" means the first one that is not loopback

	Concurrency int    // most attempts that run at once on this node, over all pools
	Queues      Queues // of the default pool
	Pools       Pools  // besides the default one

	DrainTimeout time.Duration // how long running attempts may continue after SIGTERM
	// OutageTolerance is how long running attempts may continue while Redis cannot be reached. 0 ends them before another node may begin
	// the next attempt.
	OutageTolerance time.Duration

	Durability Durability // what a submission waits for, and the begin of an attempt that must be the only one

	LeaseTTL  time.Duration // how long a partition may be without a leader after a crash
	Heartbeat time.Duration // time between two heartbeats; a node counts as dead after three missed ones

	MaxWorkersPerAddress int // most workers by HTTP at this node that call from one address
	MaxSubmissions       int // most tasks, and requests that create work, that wait for their answer at this node; beyond, they are refused

	TransferMemory           Size // most bytes of request bodies under way at this node, and as many of answers
	MaxConnectionsPerAddress int  // of clients to this node; 0 is any number
	MaxStreams               int  // most streams of events and logs at this node
	MaxStreamsPerAddress     int  // of them of one client's address

	Partitions        int // fixed at the first start; 0 means the existing number, or 16 at the first start; nobody can set that
	HandOver          int // most deliveries that wait in a queue for each slot of its living workers
	RetentionMaxTasks int // most finished tasks to keep

	Remember       time.Duration // how long the id of a task is taken after its end at least, also if the task itself is not kept
	RememberMaxIDs int           // of tasks that are not kept at most

	HTTPAllowAPI bool // http and grpc tasks may call Listen

	Monitor         bool // serve asynqmon at /monitor
	MonitorWritable bool // let asynqmon pause queues and delete deliveries

	DebugListen string // host:port of the profiles, which only this machine can reach; "" means none

	LogLevel  slog.Level
	LogFormat string
}

// DefaultOutageTolerance outlasts a failover and a restart of Redis.
const DefaultOutageTolerance = time.Minute

// RunsGoOn says what becomes of attempts while Redis is away. The minute is DefaultOutageTolerance.
const RunsGoOn = "Tasks that run go on meanwhile: for a minute, unless --outage-tolerance of their node says otherwise."

// Workers by HTTP.
const (
	WorkersLimit             = 200              // at one node
	DefaultWorkersPerAddress = WorkersLimit / 2 // which leaves half of the places to other addresses
)

// Default holds the default of every setting.
func Default() Config {
	return Config{
		Redis:                    "redis://127.0.0.1:6379/0",
		Prefix:                   "dts",
		Roles:                    Roles{RoleScheduler, RoleWorker, RoleAPI},
		Listen:                   "127.0.0.1:8080",
		Concurrency:              max(10, 2*runtime.GOMAXPROCS(0)), // attempts mostly wait for others
		Queues:                   Queues{"critical": 6, "default": 3, "low": 1},
		DrainTimeout:             30 * time.Second,
		OutageTolerance:          DefaultOutageTolerance,
		LeaseTTL:                 7 * time.Second,
		Heartbeat:                2 * time.Second,
		MaxSubmissions:           10_000,
		TransferMemory:           64 << 20,
		MaxConnectionsPerAddress: 16_384,
		MaxStreams:               500,
		MaxStreamsPerAddress:     250, // which leaves half of them to other addresses
		MaxWorkersPerAddress:     DefaultWorkersPerAddress,
		HandOver:                 4,
		RetentionMaxTasks:        100_000,
		Remember:                 time.Hour,
		RememberMaxIDs:           500_000,
		Monitor:                  true,
		LogLevel:                 slog.LevelInfo,
		LogFormat:                LogText,
	}
}

// Unhurried returns the settings for a Redis inside the process, whose only client is the process, on a clock that jumps: no message gets
// lost, and nobody else could take over, so that nothing needs to be said again soon.
func (c Config) Unhurried() Config {
	c.Partitions, c.LeaseTTL, c.Heartbeat = 1, 7*24*time.Hour, 24*time.Hour
	return c
}

// Loopback says whether only this machine can reach Listen.
func (c Config) Loopback() bool { return isLoopback(c.Listen) }

// isLoopback says whether only this machine can reach an address host:port.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// AllPools is the default pool, which has the concurrency of the node, and the others.
func (c Config) AllPools() []Pool {
	return slices.Concat([]Pool{{Name: DefaultPool, Concurrency: c.Concurrency, Queues: c.Queues}}, c.Pools)
}
