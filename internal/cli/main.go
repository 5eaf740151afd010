package cli

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/dts-sched/dts/internal/clock"
)

// Main runs dtsctl as the process was called and returns its exit code. The version is the one set at link
// time; where it is "", that of the module counts.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return Run(ctx, system(version), os.Args[1:])
}

// Run runs one command and returns the exit code. The end of ctx is an interruption by the user.
func Run(ctx context.Context, f Factory, args []string) int {
	s := &session{Factory: f}
	root := newRootCommand(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return s.explain(ctx, cmd, err)
}

// system is the Factory of a real process.
func system(version string) Factory {
	return Factory{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		OutIsTerminal: isTerminal(os.Stdout), ErrIsTerminal: isTerminal(os.Stderr),
		Width:  widthOf(os.Stdout),
		Getenv: os.Getenv, Now: clock.Now, Zone: time.Local,
		Version: cmp.Or(version, moduleVersion()),
	}
}

func isTerminal(f *os.File) bool {
	return isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd())
}

func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return strings.Trim(info.Main.Version, "()")
}
