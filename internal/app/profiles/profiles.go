// Package profiles serves the profiles of Go. It is a package of its own so that only dtsd links it: a program that links net/http/pprof
// serves them on http.DefaultServeMux as well, whether it wants to or not.
package profiles

import (
	"net/http"
	"net/http/pprof"
)

// Handler serves the profiles below /debug/pprof/, and nothing else. It has no cmdline: a password of Redis may be in there.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
