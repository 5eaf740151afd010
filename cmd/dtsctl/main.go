// Command dtsctl is DTS's command line: it uses a server over its API.
package main

import (
	"os"

	"github.com/dts-sched/dts/internal/cli"
)

// version is set at link time (-ldflags "-X main.version=v1.2.3"); without it, the module's version counts.
var version string

func main() { os.Exit(cli.Main(version)) }
