// Package cli is dtsctl: the commands with which people and scripts use DTS over its API.
//
// Each group of commands has a package of its own: task, schedule, apply, queue, node, namespace, events, bench.
// They do not import each other. They share these packages:
//
//	command   the factory they get, their errors and arguments
//	flags     groups of flags that several commands have
//	printer   tables, charts, times and colours
//	server    the client, answers, errors, pages and streams of the server
//	taskview  what became of a task, at once or after waiting for its end
//	diff      what differs between two definitions of a schedule
//
// A command is a file: an options struct, a constructor, which describes the command and binds its flags, and a run
// function, which does the work. The options hold everything that comes from outside, so nothing is global and tests
// run commands side by side.
//
// The error of a command decides the exit code; see exit.go.
package cli
