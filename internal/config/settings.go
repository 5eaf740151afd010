package config

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// Section is a group of settings that belongs to one part of DTS. The part declares and keeps them itself, so that this
// package need not know it.
type Section interface {
	// Declare adds a flag for every setting of the section, with its default.
	Declare(flags *pflag.FlagSet)
	// Validate says everything that is invalid about the values, each with the name of the setting and what would be
	// valid.
	Validate() error
}

// Settings finds the values of a Config and of sections: first from the command line, when the caller parses the flags,
// then in Load from the other sources.
type Settings struct {
	flags    *pflag.FlagSet // those of settings only; the caller's flag set shares the flags
	config   Config
	sections []Section
	file     string
}

// Bind adds a flag for every setting to fs. defaults holds the values of settings that nobody sets.
func Bind(fs *pflag.FlagSet, defaults Config, sections ...Section) *Settings {
	s := &Settings{flags: pflag.NewFlagSet("settings", pflag.ContinueOnError), config: defaults, sections: sections}
	s.flags.SortFlags = false
	s.declareNode()
	s.declareWork()
	s.declareData()
	s.declareWatching()
	for _, section := range sections {
		section.Declare(s.flags)
	}
	fs.AddFlagSet(s.flags)
	return s
}

func (s *Settings) declareNode() {
	f, c := s.flags, &s.config
	f.StringVar(&s.file, fileFlag, "", "YAML `FILE` with settings, named like these flags")
	f.Var(&c.Redis, "redis", "address of Redis: redis://, unix://, redis+sentinel:// or redis+cluster://; with TLS rediss://, rediss+sentinel:// or rediss+cluster://")
	f.StringVar(&c.Prefix, "prefix", c.Prefix, "prefix of all keys in Redis")
	f.Var(&c.Roles, "roles", "roles of this node: scheduler, worker, api")
	f.StringVar(&c.Listen, "listen", c.Listen, "`HOST:PORT` of the API, the metrics and the health checks")
	f.StringVar(&c.BasePath, "base-path", c.BasePath, "`PATH` below which a reverse proxy passes everything on, as in /dts; "+
		"metrics and health checks are served without it, too")
	f.Var(&c.AllowedHosts, "allowed-hosts", "names by which this node is reached, such as that of a reverse proxy; requests to others are "+
		"refused (default: at a loopback address localhost and loopback addresses, otherwise any name)")
	f.StringVar(&c.NodeName, "node-name", c.NodeName, "name in the list of nodes, the same after a restart (default: the host name of the machine)")
	f.Var(&c.Labels, "labels", "labels of this node in the list of nodes, as in zone=eu,gpu=2,spot; may be repeated")
	f.StringVar(&c.NodeIP, "node-ip", c.NodeIP, "`IP` address in the list of nodes (default: the first that is not loopback)")
}

func (s *Settings) declareWork() {
	f, c := s.flags, &s.config
	f.IntVar(&c.Concurrency, "concurrency", c.Concurrency, "most attempts that run at once on this node, over all pools")
	f.Var(&c.Queues, "queues", "queues of the default pool and their weights")
	f.Var(&c.Pools, "pool", "additional pool: a part of the node's concurrency for its own queues; may be repeated")
	f.DurationVar(&c.OutageTolerance, "outage-tolerance", c.OutageTolerance, "how long running attempts may continue while Redis cannot be reached; 0: until another node may begin the next attempt")
	f.BoolVar(&c.HTTPAllowAPI, "http-allow-api", c.HTTPAllowAPI, "let http and grpc tasks call the API of this node and of the others")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long running attempts may continue after SIGTERM")
}

func (s *Settings) declareData() {
	f, c := s.flags, &s.config
	f.Var(&c.Durability, "durability", "wait=N: accept a task, and start an attempt that must be the only one (max_attempts 1), only when N replicas of Redis have it")
	f.DurationVar(&c.LeaseTTL, "lease-ttl", c.LeaseTTL, "how long a partition may be without a leader after a crash")
	f.DurationVar(&c.Heartbeat, "heartbeat", c.Heartbeat, "time between two heartbeats; a node counts as dead after three missed ones")
	f.IntVar(&c.MaxSubmissions, "max-submissions", c.MaxSubmissions, "most submissions that wait for their answer at this node, counted in tasks; beyond, they are refused at once (503)")
	f.IntVar(&c.MaxWorkersPerAddress, "max-workers-per-address", c.MaxWorkersPerAddress, "most workers by HTTP of one address, of IPv6 of one /64 network, at this node, of 200 in all")
	f.Var(&c.TransferMemory, "transfer-memory", "most bytes of request bodies that are under way at this node, and as many of answers; "+
		"beyond, large ones are refused at once (503); one client's address has as much as it leaves to others, a half while it is alone; at least 32MiB")
	f.IntVar(&c.MaxConnectionsPerAddress, "max-connections-per-address", c.MaxConnectionsPerAddress,
		"most connections of one client's address to this node, of IPv6 of one /64 network; behind a reverse proxy, all come from its; 0: any number")
	f.IntVar(&c.MaxStreams, "max-streams", c.MaxStreams,
		"most streams of events and logs that clients follow at this node; beyond, they are refused (503)")
	f.IntVar(&c.MaxStreamsPerAddress, "max-streams-per-address", c.MaxStreamsPerAddress,
		"most streams of one client's address, of IPv6 of one /64 network; behind a reverse proxy, all come from its")
	f.Var((*partitionCount)(&c.Partitions), "partitions", "number of partitions, fixed at the first start (default: 16 at the first start, later the existing number)")
	f.IntVar(&c.HandOver, "hand-over", c.HandOver, "how many deliveries wait in an asynq queue for each slot of its workers; other due tasks wait in DTS")
	f.IntVar(&c.RetentionMaxTasks, "retention-max-tasks", c.RetentionMaxTasks, "most finished tasks to keep")
	f.DurationVar(&c.Remember, "remember", c.Remember, "how long after the end of a task its id stays taken at least, even if the task itself is deleted before; 0: as long as the task is kept")
	f.IntVar(&c.RememberMaxIDs, "remember-max-ids", c.RememberMaxIDs, "most ids to remember of tasks that are not kept; beyond, the oldest are forgotten early")
}

func (s *Settings) declareWatching() {
	f, c := s.flags, &s.config
	f.BoolVar(&c.Monitor, "monitor", c.Monitor, "serve asynqmon at /monitor")
	f.BoolVar(&c.MonitorWritable, "monitor-writable", c.MonitorWritable, "let asynqmon pause queues and delete deliveries")
	f.StringVar(&c.DebugListen, "debug-listen", c.DebugListen, "loopback `HOST:PORT` at which to serve the profiles of this process (pprof)")
	f.Var((*logLevel)(&c.LogLevel), "log-level", "lowest level to log: debug, info, warn or error")
	f.StringVar(&c.LogFormat, "log-format", c.LogFormat, "format of the log: text or json")
}

// fileFlag names the file. It is the only flag that cannot be set in the file.
const fileFlag = "config"

// Load finds the value of every setting that no flag gave: in environ, which has the form of os.Environ, or in the
// file. It is called once, after the flags were parsed. Errors name the place and the setting at fault. Validate checks
// the values.
func (s *Settings) Load(environ []string) (Config, error) {
	env, err := s.readEnvironment(environ)
	if err != nil {
		return Config{}, err
	}
	if err := s.apply(env, fileFlag); err != nil {
		return Config{}, err
	}
	file, err := s.readFile(s.file)
	if err != nil {
		return Config{}, err
	}
	var failed error
	s.flags.VisitAll(func(f *pflag.Flag) {
		if failed != nil || f.Name == fileFlag {
			return
		}
		if _, ok := env[f.Name]; ok {
			failed = s.apply(env, f.Name)
		} else {
			failed = s.apply(file, f.Name)
		}
	})
	return s.config, failed
}

// Validate says everything that is invalid about the loaded values, in the Config and in all sections.
func (s *Settings) Validate() error {
	failures := []error{s.config.Validate()}
	for _, section := range s.sections {
		failures = append(failures, section.Validate())
	}
	return errors.Join(failures...)
}

// origin is a setting's value as some source writes it.
type origin struct {
	place string // for messages: DTS_LISTEN, or "dtsd.yaml: listen"
	text  string
}

// apply sets a setting to its value in a source, unless its flag was given.
func (s *Settings) apply(source map[string]origin, name string) error {
	from, ok := source[name]
	flag := s.flags.Lookup(name)
	if !ok || flag.Changed {
		return nil
	}
	if err := flag.Value.Set(from.text); err != nil {
		return wrongValue(from.place, flag, from.text, err)
	}
	return nil
}

// settingOf returns the name of the setting for a key of the file or of the environment, and whether it exists.
func (s *Settings) settingOf(key string) (string, bool) {
	name := strings.ReplaceAll(strings.ToLower(key), "_", "-")
	return name, s.flags.Lookup(name) != nil
}

// names returns the names of all settings.
func (s *Settings) names() []string {
	var all []string
	s.flags.VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	return all
}
