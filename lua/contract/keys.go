package contract

import (
	"regexp"
	"slices"
	"strings"
)

// Redis types of keys. Channels are not keys, but they are in the same table.
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
	Name    string // in headers and in Lua; the type in Go is GoName(Name) with "Key" or "Channel" behind it
	Type    string // its Redis type
	Pattern string // of its names; <words> are parameters
	Holds   string // its content
}

// The beginnings of patterns tell to what a key belongs: a partition, the installation, or a queue of asynq. All keys of a
// partition share the hash tag {p}, so that one script may use them in a Redis Cluster.
const (
	inPartition    = "dts:{p}:"
	inInstallation = "dts:"
	inAsynqQueue   = "asynq:{q}:"
)

// Keys is every kind of key and channel of DTS, and of asynq as far as DTS uses them directly.
var Keys = []Kind{
	{"defs", Hash, "dts:{p}:defs", "the definition of every task: the time of its creation (13 digits), the head as one line of JSON, a line break, and the payload or, if that is long, `@` and its SHA-1. The head of a task with a trace ends with a field whose name is `trace` and the traceparent, and whose value is 0"},
	{"payloads", Hash, "dts:{p}:payloads", "the long payloads"},
	{"originals", Hash, "dts:{p}:originals", "of changed tasks, and of those with a trace, the SHA-1 of the definition that was submitted, in the canonical form"},
	{"states", Hash, "dts:{p}:states", "the state of every task but those that were never claimed: state, attempt, max_attempts, first_due, due, queued, started, run, progress, cancel, finished, outcome, moving, separated by blanks; 0 for none, and the last ones can be missing. A `>` behind max_attempts says that the leader has to act on the end of the task. A `@` behind that has the node to which alone the newest attempt was handed over. A `+` behind that has the limits of which a queued or running task holds a slot, or under which a scheduled one waits, with commas between them; a cost above 1 stands before them, as in `5,key:a,all`. moving is the time of the request to move, the node to which the task is to go, and who asked, with colons between; behind them, until it is claimed, the node that has given it up. The progress is `<percent>` or, if it has a note or the attempt saved a checkpoint, `<percent>:<note, percent-encoded>`"},
	{"results", Hash, "dts:{p}:results", "the results of tasks that have one"},
	{"errors", Hash, "dts:{p}:errors", "why the newest attempt did not succeed, of tasks for which that is known"},
	{"checkpoints", Hash, "dts:{p}:checkpoints", "the newest checkpoints, as JSON, of tasks whose attempts saved one and that have not succeeded"},
	{"wheel", ZSet, "dts:{p}:wheel", "scheduled tasks that are not known to be due, by due time"},
	{"ready", ZSet, "dts:{p}:ready:<queue>", "scheduled tasks of a queue that are due and wait until the queue has room, by due time; they are not on the wheel. Priority n counts as n times 30 s earlier, plus n/16 ms. `<queue> <type>` is a lane: tasks of one type that wait apart, as no living worker of the queue runs them, or too few do. `<queue> <type> <key> <weight>` is that of a fair key, where the type is `*` for all. `<queue> <type> <key> <weight> <limits>` is that of tasks with limits, where key is `*` for none, and a cost above 1 stands before the limits. `<queue> <type> <key> <weight> <limits> <reach>` is that of tasks that say where they may run, where limits are `*` for none. `*` has those that nobody serves and for which there was no further name: before a change to a release that does not know it, have a worker serve them, or cancel them"},
	{"backlog", Set, "dts:{p}:backlog", "the queues, and lanes, of which tasks wait for room or for a worker"},
	{"holds", Set, "dts:{p}:holds:<limit>", "the queued and running tasks that hold a slot of a limit. One with the cost 3 is three members: `<ref>`, `<ref> 2` and `<ref> 3`"},
	{"caps", Hash, "dts:{p}:caps", "how many tasks of the partition may hold a slot, by limit: `<version> <cap> <tokens>`; tokens are starts that were granted and not used. `@` has the newest version. See `test/model/limits`"},
	{"use", Hash, "dts:{p}:use:<limit>", "in the partition that the name of a limit belongs to: how many slots each partition may use, by its number: `<version> <count> <tokens> <waits since ms> <asked ms>`, and ` <least> <waits for tokens since ms> <least tokens> <asks again ms>` while it waits for tokens, or for several slots. `@` has when the bucket of the rate is full again, in ms. It expires five minutes after the last slot was given back, or when the bucket is full"},
	{"queued", ZSet, "dts:{p}:queued", "queued tasks, by the time at which the leader looks after their delivery"},
	{"running", ZSet, "dts:{p}:running", "running tasks, by the time of the start"},
	{"held", ZSet, "dts:{p}:held", "running tasks, by the end of their run lease"},
	{"expiry", ZSet, "dts:{p}:expiry", "finished tasks, by the time they are forgotten"},
	{"remembered", Hash, "dts:{p}:remembered", "tasks that were deleted and whose names are still taken, and those of ticks that were restored after Redis had lost them: the first 16 digits of the SHA-1 of the definition, as stored or as submitted, the final state, the time of the creation and of the end, separated by blanks, with `-` for what is not known"},
	{"remembered_order", List, "dts:{p}:remembered:order", "their names, those that were deleted or restored first at the beginning"},
	{"deleted", ZSet, "dts:{p}:deleted", "tasks that were deleted less than 2 minutes after their end, by the time of that: nobody writes them again if Redis seems to have lost them; the newest 10,000"},
	{"outbox", ZSet, "dts:{p}:outbox", "what the leader must do because a task ended, by the time when: `end <ref> <attempt> <state>`, which creates the task's follow-up, or makes the task due that waits for that end, or, of a step, has its run go on; `plan <ref>`, at which time a run of a workflow is to be planned at the latest. It leaves what it cannot read for a minute"},
	{"runs", Hash, "dts:{p}:runs", "what became of the steps of each run of a workflow, by its task: the text that `internal/workflow` describes. It goes with the task"},
	{"plans", Hash, "dts:{p}:plans", "the definition, as JSON, of each run of a workflow that has begun: the one that was in force then"},
	{"asks", Hash, "dts:{p}:asks", "what was asked of runs of workflows and was not done yet, a line each: `pause`, `resume`, or `rerun` and the steps from which on"},
	{"workflows", ZSet, "dts:{p}:workflows", "the names of all workflows that were put, all with score 0"},
	{"workflow", Hash, "dts:{p}:workflow:<ref>", "one workflow: def, its definition as JSON; by and nonce, who put the revision and what that call has drawn; revision, created, and from, when the revision was put; and while it is paused paused, since when, paused_by and note"},
	{"revisions", List, "dts:{p}:revisions:<ref>", "the earlier revisions of a workflow, as JSON, newest first"},
	{"line", ZSet, "dts:{p}:line:<ref>", "the runs of a workflow that are due and have not ended, as `<ref> <attempt>`, in their order, while the workflow has `max_runs` or is paused. The first `max_runs` may run. Runs that have ended meanwhile go when another one waits"},
	{"once", Hash, "dts:{p}:once", "what is known of keys of submissions, by `<namespace>:<key>`: the name of the newest task within the key, that of the one that waits for its end, when the first submission came that it has been, when a throttle lets the next one be due, and which submissions have replaced a task lately, separated by blanks; `@` and 0 for none. It goes when these tasks are deleted"},
	{"listeners", String, "dts:{p}:listeners", "exists while somebody follows events; expires"},
	{"attempts", List, "dts:{p}:attempts:<ref>", "its earlier attempts that ended, as JSON, oldest first; the newest one is in its state"},
	{"log", Stream, "dts:{p}:log:<ref>", "its log; ids are `<attempt>-<line>`, fields stream, at, text"},
	{"index", ZSet, "dts:{p}:state:<namespace>:<state>", "finished tasks of a namespace in a state, by the time of their end"},
	{"listed_new", List, "dts:{p}:listed:new", "tasks that need a new row in the index of lists, oldest first, after the revision of the index. It exists while there is an index"},
	{"listed", Hash, "dts:{p}:listed", "the segments of the index of lists by their numbers: how many rows each has, of which tasks and times. `*` has how far the index is built, and `@` the token of the lease under which it was kept last. In a binary form, see `internal/index`"},
	{"listed_rows", Hash, "dts:{p}:listed:rows", "the rows of a block of a segment, by the number of the segment and the place of the block, as `12.0`, in a binary form. A row has what lists ask for of a task that waits or has ended"},
	{"listed_labels", Hash, "dts:{p}:listed:labels", "which labels are among the rows of a segment, by its number; in a binary form"},
	{"schedules", ZSet, "dts:{p}:schedules", "the names of all schedules, all with score 0"},
	{"ticks", ZSet, "dts:{p}:ticks", "active schedules, by the time the leader plans their ticks: the next tick, or at once after a change"},
	{"schedule", Hash, "dts:{p}:schedule:<ref>", "one schedule: def, task, queue, by, revision, nonce, created, from, cursor, and later runs, failures, paused, paused_by, note, rest, ended, known, records, oldest, replacing, held, tracked, succeeded, missed, day, days, ends, ends0 to ends3. `queue`: `<revision> <queue of its tasks>`, which holds while that revision is the present one (nodes of earlier releases leave it as it is); `by` in the same way who put the revision, and `paused_by`, `<ms> <who>`, who paused it at the time `paused`; `nonce`: drawn by the call that put the revision; `from`: its revision decides the ticks after this time; `rest`: the last pause that a resume ended, `<from ms> <until ms>`; `known`: records of ticks up to this time are missing from the ledger; `records`, `oldest`: how many ticks the ledger has, and a time before which it has none; `replacing`: the waiting tick for which live tasks are still to be stopped; `held`: `<ms> <queue>`, when ticks after the cursor were held back last, and for which queue; of ticks up to the cursor it says nothing; `tracked`: since when ends of runs are kept; `succeeded`: when the newest success ended; `missed`: the newest tick that was missed; `day`, `days`: counts of what became of the ticks of the newest day that has begun, and of up to 89 others, as `20260102s23f1` (s succeeded, f failed, c cancelled, m missed, o skipped_overlap, x excluded, r replaced); `ends`: how many ends were kept so far, and the newest 1 to 25 of them, as `20260102T150405Z/s1/5230/1204`: the name of the tick, the outcome (s, f, c, or a for a run that somebody retried) with the attempts, the ms from the tick to the end, and the ms that the last attempt took; `ends0` to `ends3`: the 25 ends before in each, in turn"},
	{"history", List, "dts:{p}:history:<ref>", "its earlier revisions, as JSON, newest first"},
	{"ledger", ZSet, "dts:{p}:ledger:<ref>", "its records, by tick: `<name> <outcome> <1 if it has a task, else 0> <late ms> <decided ms> <revision> <reason>`; or, by the first tick, up to 32 that fired on time: `fired <revision> <count> <last tick ms> <last interval ms> <late ms>,<interval ms>:<late ms>,<late ms>...`"},
	{"asked", Hash, "dts:{p}:asked:<ref>", "which requests with a key have run something of a schedule: `trigger <key>` and the time in ms and the name of the run, or `backfill <key>` and the time; the newest 1,000. It expires an hour after the newest one"},
	{"live", ZSet, "dts:{p}:live:<ref>", "names of its ticks and triggered runs whose task has not ended, by tick; not those that a backfill created. The score is negative once a later tick has stopped the task"},
	{"waiting", List, "dts:{p}:waiting:<ref>", "its ticks that wait until no task of it is live, oldest first: `<tick ms> <name>`"},
	{"wakes", String, "dts:{p}:wakes", "how often the leader was woken, by the messages on the partition's channel wake"},
	{"lease", String, "dts:{p}:lease", "the newest fence: `<token>:<node>`, that of the leader if there is one"},
	{"term", String, "dts:{p}:lease:<fence>", "exists while the node with that fence leads; expires with the lease"},
	{"losses", List, "dts:{p}:losses", "when Redis has lost writes that it had acknowledged, as far as a node noticed, newest first: `<from ms> <until ms>`"},
	{"confirmed", String, "dts:{p}:confirmed", "written when a node has found what replicas must have, and waits until they have it"},
	{"lock", Hash, "dts:{p}:lock:<ref>", "one lock that is held: holder, fence, since, expires, ttl, note; expires with it"},
	{"locks", ZSet, "dts:{p}:locks", "the locks that are held, by the time at which they expire; those that have expired go when another one is taken"},
	{"token", String, "dts:{p}:token", "the newest fencing token of all locks of the partition"},
	{"lost", List, "dts:{p}:lost", "attempts that a leader has ended as lost, the newest first: `<ms> <ref>:<attempt> <node>`; the newest 100"},
	{"mark", String, "dts:{p}:mark", "the field `data` of `dts:meta`, which tells that the data is there if that is gone"},
	{"minute", Hash, "dts:{p}:minute:<minute>", "in partition 0: what each node has counted in the minute that began then, in ms, by the node; under `*`, what waited and ran at its end. In a binary form, compressed; see `internal/rollup`. A leader deletes it about a minute after its end; else it expires"},
	{"minutes", Hash, "dts:{p}:minutes", "in partition 0: what all nodes counted, by the begin of the minute in ms, for the last 65 minutes; in the same form"},
	{"hours", Hash, "dts:{p}:hours", "the same by the hour, for the last 25 hours"},
	{"status", String, "dts:{p}:status", "of partition 0 only: whether the installation needs somebody, as JSON; written by the node that leads it, or by one that is asked while none leads it"},
	{"examined", Hash, "dts:{p}:examined", "of partition 0 only: what the newest run of doctor found, by check: `<ms> <severity> <found and not repaired>`"},
	{"nodes", Hash, "dts:nodes", "the nodes by id: `<ms of the last beat> <the node's description of itself, as JSON>`"},
	{"cordons", Hash, "dts:cordons", "the nodes whose workers take no tasks, by id or name: `<since ms> <until ms, 0 for no end> <who asked and why, as JSON>`. Nodes of earlier releases do not read it"},
	{"taken", String, "dts:taken:<worker>", "what a worker by HTTP took in its newest call that can be repeated: the `request` of the call, and for each attempt `<ref>:<attempt> <run> <queue>`, separated by blanks; expires when the leases are over"},
	{"namespaces", ZSet, "dts:namespaces", "the namespaces, by the time of the last submission to them"},
	{"limits", Hash, "dts:limits", "the capacities of queues: how many due tasks may wait in each that has one"},
	{"rules", Hash, "dts:rules", "the limits by their names, as JSON: what each allows, who set it, and when"},
	{"bulks", Hash, "dts:bulks", "the newest bulk actions by their ids, as JSON: what is done with which tasks, and how far it is"},
	{"meta", Hash, "dts:meta", "the number of partitions, the secret with which nodes sign the tokens of runs, the version of the layout; `3-unfinished` while data of an older layout is converted. `moving`: a node would have the layout move, and no node has joined since. `retries`: since when the present defaults of retries hold, in ms; 0 for always. `data`: drawn at the first start, and by the node that writes the hash again after Redis has lost all data"},
	{"conversion", String, "dts:conversion", "the node that converts data of an older layout; expires"},
	{"old_task", Hash, "dts:{p}:task:<ref>", "layouts 1 and 2 only: one task. The conversion leaves those that it cannot read"},
	{"old_epoch", String, "dts:{p}:epoch", "layouts 1 and 2 only: the newest fencing token"},
	{"old_inflight", ZSet, "dts:{p}:inflight", "layouts 1 and 2 only: deliveries claimed and not yet confirmed, as `<ref>:<attempt>`, by the time of the claim"},
	{"unconverted", ZSet, "dts:{p}:unconverted", "tasks of an older layout that the conversion could not read, by their score in the sorted set that it took them from"},
	{"aside", Hash, "dts:{p}:aside:<what>", "what `doctor --repair`, or a leader, has put aside because nobody could read it, for 30 days; `<what>` is the time of that in ms, a colon and the rest of the key that it was. Of a task (`task:<ref>`), a hash with the values by the keys that they were in; of an entry, a hash with its value by its name; of a key of the wrong type, that key itself"},
	{"events", Channel, "dts:events", "what happens to tasks: states, changes, progress, log lines"},
	{"changes", Channel, "dts:changes", "changes of schedules, workflows and queues, as JSON: type, ref or queue, at, revision, by, note, limit; all of them texts. Nodes of earlier releases publish none"},
	{"wake", Channel, "dts:wake:<partition>", "for the leader of a partition: `task`: a task is the first on the wheel; `schedule`: a schedule is the first that is due; `follow`: the outbox has something new; `freed` and limits of which slots are free; `settle` and a limit: its home may grant some, or others want some"},
	{"unlocked", Channel, "dts:unlocked", "the name of each lock that was released"},
	{"leaders", Channel, "dts:leaders", "for all leaders: `room <queue>`: a queue of which tasks wait has room; `free`: a lease was released; `limits`: what limits allow has changed"},
	{"control", Channel, "dts:control", "attempts that their worker must stop: `<namespace>:<id>:<attempt>`"},
	{"members", Channel, "dts:nodes", "changes of the list of nodes: `join`, `leave`, `lost`, `cordoned`, `uncordoned`, or the new state of a node, then its id, or the name that was cordoned, and the time in ms, which nodes of earlier releases leave out"},
	{"arrivals", Channel, "dts:arrivals:<queue>", "for all workers of a queue, empty messages: it has more deliveries than those who were woken take, got one back, or was resumed"},
	{"worker", Channel, "dts:worker:<node>", "for the workers of a node: `<queue>`: the queue was empty and has deliveries, of which not all workers are told"},
	{"delivery", Hash, "asynq:{q}:t:<id>", "asynq: one delivery: msg, state, pending_since"},
	{"pending", List, "asynq:{q}:pending", "asynq: ids of deliveries that wait for a worker. The queue `<queue>@<node>` has those that only this node takes"},
	{"active", List, "asynq:{q}:active", "asynq: ids of deliveries that workers took"},
	{"deadline", ZSet, "asynq:{q}:lease", "asynq: the same ids, by the time in s at which the worker's lease of the delivery ends"},
	{"paused", String, "asynq:{q}:paused", "asynq: exists while the queue is paused: since when, in s; DTS adds a blank and who paused it, and a line break and why"},
	{"scheduled", ZSet, "asynq:{q}:scheduled", "asynq: ids of tasks that its own clients submitted for later, by due time in s"},
	{"retry", ZSet, "asynq:{q}:retry", "asynq: ids of tasks that its own servers try again, by due time in s"},
	{"archived", ZSet, "asynq:{q}:archived", "asynq: ids of dead letters, by the time of their failure in s"},
	{"completed", ZSet, "asynq:{q}:completed", "asynq: ids of finished tasks that its own servers keep, by the time of their deletion in s"},
	{"groups", Set, "asynq:{q}:groups", "asynq: the groups of tasks that its own servers aggregate"},
	{"group", ZSet, "asynq:{q}:g:<group>", "asynq: ids of tasks that its own servers aggregate, by the time of their arrival in s"},
	{"processed", String, "asynq:{q}:processed", "asynq: how many deliveries were handled, including failed ones"},
	{"processed_today", String, "asynq:{q}:processed:<day>", "asynq: the same on one day (UTC), as `2006-01-02`; kept for 90 days"},
	{"failed", String, "asynq:{q}:failed", "asynq: how many deliveries failed"},
	{"failed_today", String, "asynq:{q}:failed:<day>", "asynq: the same on one day; kept for 90 days"},
	{"awaited", String, "asynq:{q}:awaited", "DTS, not asynq: exists while leaders wait for room in the queue; the number of waiting deliveries at which a worker tells them"},
	{"called", String, "asynq:{q}:called", "DTS, not asynq: how many of the workers that were woken when the queue was empty have not taken yet; 0 if all were woken since; expires"},
	{"skipped", String, "asynq:{q}:skipped", "DTS, not asynq: exists while workers pass over deliveries that wait, as they do not run their types; expires"},
	{"several", Hash, "asynq:{q}:several", "DTS, not asynq: of the queue of one node, how many slots a task holds there, by the id of its delivery, if it holds several; what leaders find there of deliveries that have gone they remove"},
	{"queues", Set, "asynq:queues", "asynq: the names of all queues"},
	{"servers", ZSet, "asynq:servers", "asynq: the keys of all servers, by the time in s at which they expire"},
	{"workers", ZSet, "asynq:workers", "asynq: the keys of what all servers work on, by the time in s at which they expire"},
	{"server", String, "asynq:servers:{<server>}", "asynq: one server, which is a pool of a node; the server is `<host>:<process>:<id>`"},
	{"server_workers", Hash, "asynq:workers:{<server>}", "asynq: the deliveries that a server works on, by id"},
	{"zset", ZSet, "", "any sorted set"},
	{"hash", Hash, "", "any hash"},
}

// KindOf returns the kind of that name; false if there is none.
func KindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(Keys, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Keys[i], true
}

// InPartition reports whether keys of the kind belong to a partition.
func (k Kind) InPartition() bool { return strings.HasPrefix(k.Pattern, inPartition) }

// InAsynqQueue reports whether keys of the kind belong to a queue of asynq.
func (k Kind) InAsynqQueue() bool { return strings.HasPrefix(k.Pattern, inAsynqQueue) }

// GoType returns the name of the kind's type in Go.
func (k Kind) GoType() string {
	if k.Type == Channel {
		return GoName(k.Name) + "Channel"
	}
	return GoName(k.Name) + "Key"
}

var parameter = regexp.MustCompile(`<(\w+)>`)

// parameters returns the names in angle brackets.
func (k Kind) parameters() []string {
	var names []string
	for _, m := range parameter.FindAllStringSubmatch(k.Pattern, -1) {
		names = append(names, m[1])
	}
	return names
}

// owner returns the beginning of the pattern, which tells to what the key belongs.
func (k Kind) owner() string {
	for _, owner := range []string{inPartition, inAsynqQueue, inInstallation} {
		if strings.HasPrefix(k.Pattern, owner) {
			return owner
		}
	}
	return ""
}

// luaKey returns the Lua function that makes keys of the kind, or the variable that has the key if there is one only. The
// local variable partition or asynq_queue has their beginning.
func (k Kind) luaKey() string {
	beginning := "partition"
	if k.InAsynqQueue() {
		beginning = "asynq_queue"
	}
	rest := strings.TrimPrefix(k.Pattern, k.owner())
	expression := beginning + " .. '" + parameter.ReplaceAllString(rest, "' .. $1 .. '") + "'"
	expression = strings.TrimSuffix(expression, " .. ''")
	if len(k.parameters()) == 0 {
		return "local " + k.Name + "_key = " + expression + "\n"
	}
	return "local function " + k.Name + "_key(" + strings.Join(k.parameters(), ", ") + ")\n  return " + expression + "\nend\n"
}

// GoName returns a name of a header in Go's form: RunAt for run_at, ID for id.
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

// Page returns the page docs/keys.md: Keys as a table in Markdown.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Keys

Generated from lua/contract/keys.go by make generate.

All keys of a partition share the hash tag ` + "`{p}`" + `, the partition's number, so that one script may use them in a Redis
Cluster. ` + "`<ref>`" + ` is ` + "`<namespace>:<id>`" + `, ` + "`{q}`" + ` asynq's name of a queue. An installation with another prefix has it in
place of ` + "`dts`" + `. Scores of sorted sets are times in ms since 1970, unless the table says otherwise.

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
