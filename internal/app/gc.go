package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is by how much the heap grows between two garbage collections. A node has a few MB of live heap and allocates for each
// request and attempt: with Go's default of 100 it collects several times a second, and each collection adds some ms of latency.
// docs/performance.md has measurements.
const gcPercent = 400

// TuneGC sets the garbage collector for a process that runs nodes, unless the environment variable GOGC does. GOMEMLIMIT works
// as always.
func TuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
