// Package lua has the scripts that change DTS's data in Redis, or read it where several commands must see the same moment,
// and the Go types with which the rest of DTS calls them. docs/state-machine.md says which script makes which change of a
// task's state.
//
// Redis runs a script alone from start to end, so every script is an atomic step. A refusal does not undo earlier writes of
// the script; therefore every script reads, guards, writes and returns, in this order. Clients send a script again if its
// reply was lost; therefore the header of every script says what a repeat does.
//
// The header of a script is its contract. Package contract parses it, binds keys and arguments to local variables, puts the
// includes before the body, and generates border.gen.go: for each script a struct with its keys and arguments, a struct for
// its reply, and a constant for each refusal.
package lua

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/dts-sched/dts/lua/contract"
)

//go:embed *.lua include/*.lua
var files embed.FS

// Script is one script as Redis runs it.
type Script struct {
	Name     string // file name without ".lua"
	Source   string
	Refusals []Code // the codes with which it may refuse
}

// Names returns the names of all scripts, sorted.
func Names() []string { return slices.Sorted(maps.Keys(scripts())) }

// ByName returns the script of that name, nil if there is none.
func ByName(name string) *Script {
	if compose := scripts()[name]; compose != nil {
		return compose()
	}
	return nil
}

// scripts has a function for each script that composes it at its first call: all of them together would take long. It and
// these functions panic on an invalid header, which the tests of this package exclude.
var scripts = sync.OnceValue(func() map[string]func() *Script {
	library, err := contract.Load(files)
	if err != nil {
		panic(fmt.Sprintf("lua: %v", err))
	}
	all := make(map[string]func() *Script, len(library.Scripts))
	for name, c := range library.Scripts {
		all[name] = sync.OnceValue(func() *Script {
			source, err := library.Compose(c)
			if err != nil {
				panic(fmt.Sprintf("lua: %v", err))
			}
			s := &Script{Name: name, Source: source}
			for _, r := range c.Refusals {
				s.Refusals = append(s.Refusals, Code(r.Code))
			}
			return s
		})
	}
	return all
})

func scriptOf(name string) *Script { return scripts()[name]() }
