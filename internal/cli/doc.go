// Package cli is dtsctl: the commands with which people and scripts use DTS over its API.
//
// A command is a constructor, which describes its flags, and a run function, which does the work. Both get the
// session, which holds everything that comes from outside: the streams, the environment, the clock, the flags
// that all commands share. Nothing is global, so tests run commands side by side.
//
// What a command prints depends on who reads it. A terminal gets tables, colour and "in 3 minutes"; a pipe
// gets one line a thing, its fields separated by tabs, times in RFC 3339, no header. With -o json it is what
// the API answered.
//
// An error decides the exit code; see errors.go.
package cli
