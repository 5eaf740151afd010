package contract

import "fmt"

// Type is a type of arguments and fields of replies.
type Type struct {
	Go     string // the type in Go
	Encode string // Go expression for the argument with the value %s
	Decode string // method of lua.Reply that reads it; "" if replies cannot have the type
	Lua    string // Lua expression for the value of the argument %s
}

// Types are the types of arguments and replies, by the names that headers use.
var Types = map[string]Type{
	"text":     {Go: "string", Encode: "%s", Decode: "Text", Lua: "%s"},
	"number":   {Go: "int", Encode: "%s", Decode: "Number", Lua: "tonumber(%s)"},
	"flag":     {Go: "bool", Encode: "flag(%s)", Decode: "Flag", Lua: "%s == '1'"},                          // 1 or 0; in Lua true or false
	"ms":       {Go: "time.Duration", Encode: "%s.Milliseconds()", Decode: "Duration", Lua: "tonumber(%s)"}, // whole ms
	"maybe_ms": {Go: "*time.Duration", Encode: "span(%s)", Lua: "tonumber(%s)"},                             // nil: "" on the wire, nil in Lua
	"time":     {Go: "time.Time", Encode: "moment(%s)", Decode: "Time", Lua: "tonumber(%s)"},                // ms since 1970; zero time: "" on the wire, nil in Lua, false in a reply
	"member":   {Go: "task.Ref", Encode: "%s.String()", Decode: "Ref", Lua: "%s"},                           // "namespace:id"
	"attempt":  {Go: "int", Encode: "%s", Decode: "Number", Lua: "%s"},                                      // decimal text, as in a hash
	"state":    {Go: "task.State", Encode: "string(%s)", Decode: "State", Lua: "%s"},                        // of a task
	"outcome":  {Go: "task.Outcome", Encode: "string(%s)", Lua: "%s"},                                       // of an attempt
	"tick":     {Go: "schedule.Outcome", Encode: "string(%s)", Decode: "TickOutcome", Lua: "%s"},            // of a tick
	"action":   {Go: "schedule.Action", Encode: "string(%s)", Lua: "%s"},                                    // decision about a tick
	"fence":    {Go: "Fence", Encode: "string(%s)", Lua: "%s"},                                              // "<token>:<owner>"
	"run":      {Go: "RunToken", Encode: "string(%s)", Lua: "%s"},                                           // of one run of an attempt
	"node":     {Go: "NodeID", Encode: "string(%s)", Lua: "%s"},                                             // id of a node
	"hash":     {Go: "map[string]string", Decode: "Hash"},                                                   // as HGETALL replies
	"revision": {Go: "int", Encode: "%s", Decode: "Number", Lua: "%s"},                                      // decimal text, as in a hash
	"refusal":  {Go: "Refused", Decode: "Refused"},                                                          // of a part of a call: "<code> <detail>", "" for none
	"channel":  {Go: "", Encode: "string(%s)", Lua: "%s"},                                                   // the Go type is that of its kind in Keys
}

// typeOf returns the type of a field that is not a list of groups. Error: there is none of that name.
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
