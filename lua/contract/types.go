package contract

import "fmt"

// Type is what an argument or a part of a reply can be.
type Type struct {
	Go     string // the type in Go
	Encode string // Go: makes the argument of the value %s
	Decode string // Go: the method of lua.Reply that reads it; "" if it is no reply's type
	Lua    string // Lua: makes the local variable of the argument %s
}

// Types are the types of arguments and replies, by the names that headers use.
var Types = map[string]Type{
	"text":     {Go: "string", Encode: "%s", Decode: "Text", Lua: "%s"},
	"number":   {Go: "int", Encode: "%s", Decode: "Number", Lua: "tonumber(%s)"},
	"flag":     {Go: "bool", Encode: "flag(%s)", Decode: "Flag", Lua: "%s == '1'"},                          // 1 or 0; in Lua true or false
	"ms":       {Go: "time.Duration", Encode: "%s.Milliseconds()", Decode: "Duration", Lua: "tonumber(%s)"}, // whole ms
	"maybe_ms": {Go: "*time.Duration", Encode: "span(%s)", Lua: "tonumber(%s)"},                             // nil: "", in Lua nil
	"time":     {Go: "time.Time", Encode: "moment(%s)", Decode: "Time", Lua: "tonumber(%s)"},                // ms since 1970; zero time: "", in Lua nil, in a reply false
	"member":   {Go: "task.Ref", Encode: "%s.String()", Decode: "Ref", Lua: "%s"},                           // "namespace:id"
	"attempt":  {Go: "int", Encode: "%s", Decode: "Number", Lua: "%s"},                                      // decimal text, as it stands in a hash
	"state":    {Go: "task.State", Encode: "string(%s)", Decode: "State", Lua: "%s"},                        // of a task
	"outcome":  {Go: "task.Outcome", Encode: "string(%s)", Lua: "%s"},                                       // of an attempt
	"tick":     {Go: "schedule.Outcome", Encode: "string(%s)", Decode: "TickOutcome", Lua: "%s"},            // what became of a tick
	"action":   {Go: "schedule.Action", Encode: "string(%s)", Lua: "%s"},                                    // what a leader decided about a tick
	"fence":    {Go: "Fence", Encode: "string(%s)", Lua: "%s"},                                              // "<token>:<owner>"
	"run":      {Go: "RunToken", Encode: "string(%s)", Lua: "%s"},                                           // names one run of an attempt
	"node":     {Go: "NodeID", Encode: "string(%s)", Lua: "%s"},                                             // names a node
	"hash":     {Go: "map[string]string", Decode: "Hash"},                                                   // HGETALL
	"revision": {Go: "int", Encode: "%s", Decode: "Number", Lua: "%s"},                                      // decimal text, as it stands in a hash
	"channel":  {Go: "", Encode: "string(%s)", Lua: "%s"},                                                   // its Go type is that of its kind in Keys
}

// typeOf is the type of a field that is no list of groups.
func typeOf(f Field) (Type, error) {
	t, ok := Types[f.Type]
	if !ok {
		return Type{}, fmt.Errorf("%s: there is no type %q", f.Name, f.Type)
	}
	if f.Type == "channel" {
		kind, ok := KindOf(f.Name)
		if !ok || kind.Type != Channel {
			return Type{}, fmt.Errorf("%s: there is no channel of that name in the table of keys", f.Name)
		}
		t.Go = kind.GoType()
	}
	return t, nil
}
