package contract

import (
	"regexp"
	"slices"
	"strings"
)

// Redis types of keys; a channel is no key, but named in the same table.
const (
	String  = "STRING"
	Hash    = "HASH"
	List    = "LIST"
	ZSet    = "ZSET"
	Set     = "SET"
	Stream  = "STREAM"
	Channel = "CHANNEL"
)

// Kind is one kind of key or channel.
type Kind struct {
	Name    string // how headers and Lua name it; Go's type is its name in Go's form and "Key" or "Channel"
	Type    string // its Redis type
	Pattern string // how it is spelled; <words> are parameters
	Holds   string // what is in it
}

// Patterns begin with where the key lives: in a partition, in the installation, or with asynq. All keys of a partition
// share the hash tag {p}, so that one script may touch them in a Redis Cluster.
const (
	inPartition    = "dts:{p}:"
	inInstallation = "dts:"
	inAsynqQueue   = "asynq:{q}:"
)

// Keys is every key and channel that DTS knows, its own and those of asynq that it touches.
var Keys = []Kind{
	{"wheel", ZSet, "dts:{p}:wheel", "scheduled tasks, by due time"},
	{"queued", ZSet, "dts:{p}:queued", "queued tasks, by the time of the claim"},
	{"running", ZSet, "dts:{p}:running", "running tasks, by the time of the start"},
	{"inflight", ZSet, "dts:{p}:inflight", "deliveries claimed and not yet confirmed, by the time of the claim"},
	{"expiry", ZSet, "dts:{p}:expiry", "finished tasks, by the time they are forgotten"},
	{"task", Hash, "dts:{p}:task:<ref>", "one task: def, state, created, and as it goes on attempt, max_attempts, due, first_due, queued, started, finished, node, run, cancel, progress, result, error, original"},
	{"attempts", List, "dts:{p}:attempts:<ref>", "its attempts that ended, as JSON, oldest first"},
	{"log", Stream, "dts:{p}:log:<ref>", "its log; ids are `<attempt>-<line>`, fields stream, at, text"},
	{"index", ZSet, "dts:{p}:state:<namespace>:<state>", "finished tasks of a namespace in a state, by the time of their end"},
	{"schedules", ZSet, "dts:{p}:schedules", "the names of all schedules, all of score 0"},
	{"ticks", ZSet, "dts:{p}:ticks", "schedules, by the time the leader looks at them: the next tick, or now if something changed"},
	{"schedule", Hash, "dts:{p}:schedule:<ref>", "one schedule: def, task, revision, created, from, cursor, and as it goes on runs, failures, paused, note, rest, ended, known"},
	{"history", List, "dts:{p}:history:<ref>", "its revisions before the present one, as JSON, newest first"},
	{"ledger", ZSet, "dts:{p}:ledger:<ref>", "its records, by tick: `<name> <outcome> <1 if it has a task, else 0> <late ms> <decided ms> <revision> <reason>`"},
	{"live", ZSet, "dts:{p}:live:<ref>", "names of its ticks whose task has not ended, by tick"},
	{"waiting", List, "dts:{p}:waiting:<ref>", "its ticks that wait until no task of it is live, oldest first: `<tick ms> <name>`"},
	{"lease", String, "dts:{p}:lease", "who leads: `<token>:<node>`; expires with the lease"},
	{"epoch", String, "dts:{p}:epoch", "the newest fencing token"},
	{"nodes", Hash, "dts:nodes", "the nodes by id: `<ms of the last beat> <what the node says of itself>`"},
	{"namespaces", ZSet, "dts:namespaces", "the namespaces, by the time of the last submission to them"},
	{"meta", Hash, "dts:meta", "the number of partitions, the version of the layout"},
	{"events", Channel, "dts:events", "state changes of tasks"},
	{"wake", Channel, "dts:wake", "partitions whose leader must look again, and `free` for leases given back"},
	{"control", Channel, "dts:control", "attempts that workers must stop: `<namespace>:<id>:<attempt>`"},
	{"members", Channel, "dts:nodes", "nodes that come and go"},
	{"delivery", Hash, "asynq:{q}:t:<id>", "asynq: one delivery: msg, state, pending_since"},
	{"pending", List, "asynq:{q}:pending", "asynq: ids of deliveries that wait for a worker"},
	{"active", List, "asynq:{q}:active", "asynq: ids of deliveries taken by workers"},
	{"deadline", ZSet, "asynq:{q}:lease", "asynq: the same ids, by the s at which the worker's lease of it ends"},
	{"paused", String, "asynq:{q}:paused", "asynq: exists while the queue is paused: the s at which it was"},
	{"queues", Set, "asynq:queues", "asynq: the names of all queues"},
	{"zset", ZSet, "", "any sorted set"},
}

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(Keys, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Keys[i], true
}

// InPartition says whether keys of the kind belong to a partition.
func (k Kind) InPartition() bool { return strings.HasPrefix(k.Pattern, inPartition) }

// GoType is the kind's type in Go.
func (k Kind) GoType() string {
	if k.Type == Channel {
		return GoName(k.Name) + "Channel"
	}
	return GoName(k.Name) + "Key"
}

var parameter = regexp.MustCompile(`<(\w+)>`)

// parameters are the names in angle brackets.
func (k Kind) parameters() []string {
	var names []string
	for _, m := range parameter.FindAllStringSubmatch(k.Pattern, -1) {
		names = append(names, m[1])
	}
	return names
}

// owner is the part of the pattern that says where the key lives.
func (k Kind) owner() string {
	for _, owner := range []string{inPartition, inAsynqQueue, inInstallation} {
		if strings.HasPrefix(k.Pattern, owner) {
			return owner
		}
	}
	return ""
}

// luaMaker is the Lua function that makes keys of the kind; the local variable partition holds the beginning.
func (k Kind) luaMaker() string {
	rest := strings.TrimPrefix(k.Pattern, inPartition)
	expression := "partition .. '" + parameter.ReplaceAllString(rest, "' .. $1 .. '") + "'"
	expression = strings.TrimSuffix(expression, " .. ''")
	return "local function " + k.Name + "_key(" + strings.Join(k.parameters(), ", ") + ")\n  return " + expression + "\nend\n"
}

// GoName is a name of headers in Go's form: run_at is RunAt, id is ID.
func GoName(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(strings.ToLower(name), "_") {
		switch word {
		case "id", "ttl":
			b.WriteString(strings.ToUpper(word))
		case "inflight":
			b.WriteString("InFlight")
		case "zset":
			b.WriteString("ZSet")
		default:
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// Page is the page docs/keys.md: the table in Markdown.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Keys

Generated from lua/contract/keys.go by make generate.

All keys of a partition share the hash tag ` + "`{p}`" + `, the partition's number, so that one script may touch them in a Redis
Cluster. ` + "`<ref>`" + ` is ` + "`<namespace>:<id>`" + `, ` + "`{q}`" + ` asynq's name of a queue. An installation with another prefix has that in
place of ` + "`dts`" + `. Sorted sets are scored by a time in ms since 1970, unless the table says otherwise.

| key | type | holds |
|---|---|---|
`)
	for _, k := range Keys {
		if k.Pattern != "" {
			b.WriteString("| `" + k.Pattern + "` | " + k.Type + " | " + k.Holds + " |\n")
		}
	}
	return b.String()
}
