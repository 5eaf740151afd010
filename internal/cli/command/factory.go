// Package command is what the commands of dtsctl share: the factory they get, the errors they return, how they check
// their arguments, and how they are grouped.
package command

import (
	"io"
	"sync"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
)

// Factory gives commands what they need.
type Factory struct {
	In      io.Reader // standard input
	Printer *printer.Printer
	Server  *server.Config
	Version string // of dtsctl

	// Client returns the client of the server that the command line names, the same one each time. It must not be
	// called before the command line has been parsed.
	Client func() (*rest.Client, error)
}

// NewFactory returns a factory whose Client is made from the configuration when it is first asked for.
func NewFactory(in io.Reader, p *printer.Printer, config *server.Config) *Factory {
	return &Factory{In: in, Printer: p, Server: config, Version: config.Version, Client: sync.OnceValues(config.NewClient)}
}
