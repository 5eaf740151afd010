// Package lua holds the scripts that change DTS's data in Redis, one transition a file.
//
// Redis runs a script alone, from start to end, so each one is an atomic step. A refusal does not undo
// what the script wrote before it, hence the order inside every script: read, guard, write, return.
// Clients resend a script whose reply was lost, hence every script says in its header what a repeat does.
//
// The header of each file is its contract (keys, arguments with units, reply, refusals, repeat); the
// refusals are read from it at start, so the header is the catalogue too. prelude.lua stands in front of
// every script.
package lua

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed *.lua
var files embed.FS

const prelude = "prelude"

// Script is one script with its contract.
type Script struct {
	Name     string   // file name without ".lua"
	Source   string   // what Redis runs: prelude and body
	Refusals []string // the code words it may answer with as an error
}

var refusalLine = regexp.MustCompile(`(?m)^--   ([A-Z]+) +\S`)

// Names lists the scripts, in alphabetical order.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(fmt.Sprintf("lua: reading the embedded scripts: %v", err))
	}
	var names []string
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".lua"); name != prelude {
			names = append(names, name)
		}
	}
	return names
}

// Load returns the script of that name. A name that does not exist is a programmer's error: it panics.
func Load(name string) Script {
	body := read(name)
	s := Script{Name: name, Source: read(prelude) + "\n" + body}
	for _, m := range refusalLine.FindAllStringSubmatch(header(body), -1) {
		s.Refusals = append(s.Refusals, m[1])
	}
	return s
}

func read(name string) string {
	b, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("lua: no script %q: %v", name, err))
	}
	return string(b)
}

// header is the run of comment lines a script starts with.
func header(body string) string {
	var b strings.Builder
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}
