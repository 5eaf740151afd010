// Package lua holds the scripts that change DTS's data in Redis, one transition a file, and the Go types through which
// the rest of DTS calls them.
//
// Redis runs a script alone, from start to end, so each one is an atomic step. A refusal does not undo what the script
// wrote before it, hence the order inside every script: read, guard, write, return. Clients resend a script whose reply
// was lost, hence every script says in its header what a repeat does.
//
// The header of a script is its contract. Package contract reads it, binds keys and arguments to local variables, puts
// the includes in front that the script names, and generates border.gen.go: a struct a script, whose fields are its keys
// and arguments, a typed reply, and a constant for each refusal.
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
	Refusals []Code // the codes it may answer with as an error
}

// Names lists the scripts, in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(scripts())) }

// ByName returns the script of that name, nil if there is none.
func ByName(name string) *Script { return scripts()[name] }

// scripts composes all scripts. Tests see to it that this cannot fail.
var scripts = sync.OnceValue(func() map[string]*Script {
	library, err := contract.Load(files)
	if err != nil {
		panic(fmt.Sprintf("lua: %v", err))
	}
	all := make(map[string]*Script, len(library.Scripts))
	for name, c := range library.Scripts {
		source, err := library.Compose(c)
		if err != nil {
			panic(fmt.Sprintf("lua: %v", err))
		}
		s := &Script{Name: name, Source: source}
		for _, r := range c.Refusals {
			s.Refusals = append(s.Refusals, Code(r.Code))
		}
		all[name] = s
	}
	return all
})

func scriptOf(name string) *Script { return scripts()[name] }
