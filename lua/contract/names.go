package contract

import (
	"fmt"
	"slices"
	"strings"
)

// keywords are the words of Lua 5.1 that cannot name anything.
var keywords = strings.Fields(`and break do else elseif end false for function if in local nil not or repeat return then true
	until while`)

// taken are the globals that code uses, and the variables that Compose and the include clock bind.
var taken = strings.Fields(`string table math redis cjson tonumber tostring type next unpack ipairs pairs select error KEYS ARGV
	now partition asynq_queue`)

// checkNames refuses names that make a script fail, or do something else than it says. Keys, arguments and the parts of
// an argument become local variables. Replies do not, so that they may be named after anything but a keyword.
func checkNames(c Contract) error {
	for _, f := range withParts(slices.Concat(c.Keys, c.Args)) {
		if slices.Contains(taken, f.Name) {
			return fmt.Errorf("%s: no key or argument can have this name, which Lua or the composed script uses", f.Name)
		}
	}
	for _, f := range withParts(slices.Concat(c.Keys, c.Args, c.Reply)) {
		if slices.Contains(keywords, f.Name) {
			return fmt.Errorf("%s: nothing can have this name, which is a keyword of Lua", f.Name)
		}
	}
	return nil
}

// withParts is fields and the fields of their groups.
func withParts(fields []Field) []Field {
	var all []Field
	for _, f := range fields {
		all = append(append(all, f), f.Group...)
	}
	return all
}
