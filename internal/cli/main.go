package cli

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"os/signal"
	"os/user"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
	"github.com/dts-sched/dts/internal/clock"
)

// System is what a run of dtsctl gets from outside.
type System struct {
	In  io.Reader
	Out io.Writer // results
	Err io.Writer // messages about them

	OutIsTerminal bool
	ErrIsTerminal bool
	Width         int // of a line of Out, in columns; 0 if it is unknown

	Getenv func(string) string
	Now    func() time.Time
	Zone   *time.Location // of times that people read and write

	Version    string
	Caller     string            // who uses it, as user@host
	Transport  http.RoundTripper // nil means http.DefaultTransport
	StreamIdle time.Duration     // how long a stream may be silent before it counts as lost; 0 means 45 s
}

// Main runs dtsctl as the process was called and returns its exit code. The version is the one set at link time; if it
// is "", that of the module counts.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	// Without this, the process would die in the middle of its work when nobody reads its results any more, as behind
	// "| head -1". Children do not inherit it, as they would if the signal was ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return Run(ctx, processSystem(version), os.Args[1:])
}

// Run runs one command and returns the exit code. The end of ctx is an interruption by the user.
func Run(ctx context.Context, s System, args []string) int {
	f := s.factory()
	root := NewRootCommand(f)
	parsed := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		parsed = true
		return command.CheckNamespaces(cmd)
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return explain(ctx, f, cmd, parsed, err)
}

func (s System) factory() *command.Factory {
	p := printer.New(printer.Options{
		Out: s.Out, Err: s.Err, OutIsTerminal: s.OutIsTerminal, ErrIsTerminal: s.ErrIsTerminal, Width: s.Width,
		Colour: s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb",
		Now:    s.Now, Zone: s.Zone,
	})
	return command.NewFactory(s.In, p, &server.Config{
		Getenv: s.Getenv, Version: s.Version, Caller: s.Caller, Transport: s.Transport, StreamIdle: s.StreamIdle,
	})
}

// processSystem returns the System of the process.
func processSystem(version string) System {
	return System{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		OutIsTerminal: isTerminal(os.Stdout), ErrIsTerminal: isTerminal(os.Stderr),
		Width:  widthOf(os.Stdout),
		Getenv: os.Getenv, Now: clock.Now, Zone: time.Local,
		Version: cmp.Or(version, moduleVersion()),
		Caller:  rest.CallerName(userName()),
	}
}

func isTerminal(f *os.File) bool {
	return isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd())
}

// userName returns the name of who runs the process.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), strconv.Itoa(os.Getuid()))
}

func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return strings.Trim(info.Main.Version, "()")
}
