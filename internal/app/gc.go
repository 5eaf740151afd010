package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is by how much the heap grows between two garbage collections. A node has a few MB that live and makes short-lived
// objects for each request and attempt: with Go's default of 100 it collects several times a second, and each collection delays
// what happens meanwhile by some ms. See docs/performance.md for what it brings.
const gcPercent = 400

// TuneGC sets the garbage collector for a process that runs nodes, unless the environment variable GOGC does. GOMEMLIMIT works
// as always.
func TuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
