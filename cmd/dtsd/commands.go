package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/dts-sched/dts/internal/apidocs"
	"github.com/dts-sched/dts/internal/app"
	"github.com/dts-sched/dts/internal/app/otlp"
	"github.com/dts-sched/dts/internal/app/profiles"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/queue/monitor"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/redisx/embedded"
	"github.com/dts-sched/dts/internal/telemetry"
	"github.com/dts-sched/dts/internal/web"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

// version is set at link time (-ldflags "-X main.version=v1.2.3"). If it is empty, versionString uses the version of
// the module.
var version string

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "dtsd",
		Short: "The DTS daemon: a task queue and scheduler that needs one Redis and nothing else",
		Long: `dtsd runs one node of DTS. A node has up to three roles: the scheduler puts due tasks into queues, the
worker runs them, and the api serves the page, REST and metrics.

Try it in one process, without a Redis:   dtsd dev --demo
Run a node for real:                      dtsd serve --redis redis://127.0.0.1:6379/0`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return config.FlagError(cmd.Flags(), err) })
	root.AddCommand(newServeCommand(), newDevCommand(), newVersionCommand())
	command.RefuseUnknownWords(root)
	return root
}

func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node on a Redis",
		Long: `serve runs a node until it receives SIGTERM, SIGINT or SIGHUP. Then it hands its partitions to the other
nodes, waits up to --drain-timeout for running tasks, and exits. A second SIGTERM or SIGINT ends it at once.
When the reader of its log goes away, the node goes on without it.

Every flag can also be set in the environment (--lease-ttl is DTS_LEASE_TTL) and in a YAML file (--config).
A flag overrides the environment, and the environment overrides the file.`,
		Example: `  dtsd serve --redis redis://127.0.0.1:6379/0
  dtsd serve --roles worker --queues reports=1 --concurrency 4 --enable-shell
  DTS_REDIS=redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster dtsd serve`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
	}
	executors, traces := builtin.Table(), &otlp.Settings{}
	settings := config.Bind(cmd.Flags(), config.Default(), executors, traces)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return run(cmd, settings, node{executors: executors, traces: traces}, func(context.Context, *app.App, config.Config) error { return nil })
	}
	return cmd
}

func newDevCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in this process, on an embedded Redis",
		Long: `dev runs a node with all roles on a Redis inside the process. It keeps its data in memory only. If --listen
is a loopback address, shell tasks are enabled, and tasks may call the API of the node; otherwise that needs
--enable-shell and --http-allow-api.`,
		Example: `  dtsd dev --demo
  dtsd dev --redis-listen 127.0.0.1:6380`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
	}
	executors, traces := builtin.Table(), &otlp.Settings{}
	executors.EnableAll()
	defaults := config.Default()
	defaults.HTTPAllowAPI = true
	settings := config.Bind(cmd.Flags(), defaults, executors, traces)
	if err := cmd.Flags().MarkHidden("redis"); err != nil {
		panic(err) // the flag is declared by Bind
	}
	withDemo := cmd.Flags().Bool("demo", false, "submit a few tasks and print what happens to them")
	redisListen := cmd.Flags().String("redis-listen", "", "loopback `HOST:PORT` at which other processes reach the embedded Redis, such as workers of your own")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("redis") {
			return errors.New("--redis: dtsd dev uses an embedded Redis; run dtsd serve to use another one")
		}
		if err := config.CheckLoopback("redis-listen", *redisListen); *redisListen != "" && err != nil {
			return err
		}
		n := node{
			executors: executors, traces: traces, embedded: true, redisListen: *redisListen,
			quiet: !cmd.Flags().Changed("log-level"),
		}
		return run(cmd, settings, n, func(ctx context.Context, a *app.App, cfg config.Config) error {
			greet(cmd.OutOrStdout(), a.Addr()+cfg.BasePath, *redisListen)
			if !*withDemo {
				return nil
			}
			return n.demo(a.Addr(), cfg).show(ctx, cmd.OutOrStdout())
		})
	}
	return cmd
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "dtsd", versionString()) },
	}
}

// node says what kind of node a command runs.
type node struct {
	executors   executor.Table
	traces      *otlp.Settings
	embedded    bool   // on a Redis inside the process
	redisListen string // where that Redis listens; "" is a free port
	quiet       bool   // log warnings only
}

// run loads the settings, runs a node and, once the node is ready, calls whenReady.
func run(cmd *cobra.Command, settings *config.Settings, n node, whenReady func(context.Context, *app.App, config.Config) error) error {
	outliveReaders()
	cfg, err := settings.Load(os.Environ())
	if err != nil {
		return err
	}
	if err := settings.Validate(); err != nil {
		return err
	}
	n.restrict(&cfg, cmd.Flags().Changed)
	if cfg.DebugListen == "" {
		runtime.MemProfileRate = 0 // nobody can read the samples of memory that Go takes of a program with profiles
	}
	level := cfg.LogLevel
	if n.quiet {
		level = max(level, slog.LevelWarn) // dev prints events instead
	}
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), cfg.LogFormat, level)
	if err != nil {
		return err
	}
	redisx.LogTo(log)
	if n.embedded {
		redis, err := embedded.Start(n.redisListen)
		if err != nil {
			return err
		}
		defer redis.Close()
		cfg.Redis = config.URL(redis.URL())
	}
	a, err := app.New(cmd.Context(), n.options(cfg, log))
	if cmd.Context().Err() != nil { // told to stop while it waited for Redis
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-a.Ready():
	}
	failure := whenReady(ctx, a, cfg)
	if failure != nil {
		cancel()
	}
	return errors.Join(<-ended, failure)
}

// restrict takes away what dev allows users of this machine, if others reach the node, unless a flag allows it.
func (n node) restrict(cfg *config.Config, changed func(flag string) bool) {
	if !n.embedded || cfg.Loopback() {
		return
	}
	n.executors.DisableUnless(changed)
	cfg.HTTPAllowAPI = cfg.HTTPAllowAPI && changed("http-allow-api")
}

// demo is what the node shows at an address, with these settings.
func (n node) demo(addr string, cfg config.Config) demo {
	return demo{addr: addr + cfg.BasePath, shell: n.executors.Runs("shell"), health: cfg.HTTPAllowAPI}
}

// options are those of the node's app.
func (n node) options(cfg config.Config, log *slog.Logger) app.Options {
	o := app.Options{
		Config: cfg, Executors: n.executors, Version: versionString(), Log: log,
		Embedded: n.embedded,
		Monitor:  monitor.New,
		Profiles: profiles.Handler(),
		Docs:     apidocs.Handler(),
		Pages: func(s *edge.Server, c *control.Control, monitor bool) error {
			return web.Register(s, web.Options{Control: c, Version: versionString(), Monitor: monitor})
		},
	}
	if n.traces.On() {
		o.Traces = func(id string, log *slog.Logger) (trace.TracerProvider, func() error, error) {
			return n.traces.Start(versionString(), id, log)
		}
	}
	return o
}

func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return strings.Trim(info.Main.Version, "()")
	}
	return "devel"
}
