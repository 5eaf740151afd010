//go:build race

package process

// buildFlags are those that the Makefile has for tests with the race detector.
var buildFlags = []string{
	"-race", "-gcflags=all=-dwarf=false", "-gcflags=github.com/yuin/gopher-lua/...=-dwarf=false -race=false",
}
