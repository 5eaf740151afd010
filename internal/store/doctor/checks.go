package doctor

import "slices"

// Severity says how bad a finding is.
type Severity string

// The severities, the mildest first.
const (
	OK      Severity = "ok"      // nothing was found
	Unknown Severity = "unknown" // Redis does not say, as a managed one refuses CONFIG, or something is damaged and was passed over
	Note    Severity = "note"    // worth knowing; nothing has to be done
	Warning Severity = "warning" // something should be done, and nothing is lost until then
	Error   Severity = "error"   // something does not happen that should, or can be lost
)

// Check is something that is looked at, with what a finding means.
type Check struct {
	Name     string
	Severity Severity // of a finding; of the deployment, the worst that there can be
	Means    string   // what a finding of that severity means
	Warns    string   // what one that is only a warning means; "" if there is none
	Notes    string   // what one that is only a note means; "" if there is none
	Repair   string   // what repair does or, if it does nothing, what to do
	Repairs  bool     // whether repair does something
	OfData   bool     // whether it looks at the data; else it looks at the deployment
}

// Meaning is what a finding of a severity means; "" for Unknown. OK stands for all of them.
func (c Check) Meaning(s Severity) string {
	switch {
	case s == Unknown:
		return ""
	case s == Warning && c.Warns != "":
		return c.Warns
	case s == Note && c.Notes != "":
		return c.Notes
	case s != OK:
		return c.Means
	}
	all := c.Means
	if c.Warns != "" {
		all += " Warning: " + c.Warns
	}
	if c.Notes != "" {
		all += " Note: " + c.Notes
	}
	return all
}

// Checks are all checks, those of the deployment first. docs/operations.md has them as a table.
var Checks = slices.Concat(checksOfTasksAndSchedules, checksOfRuns, checksOfLocksAndQueues)

// checksOfTasksAndSchedules are those of the deployment, too.
var checksOfTasksAndSchedules = []Check{
	{
		Name: reachable, Severity: Error,
		Means:  "Redis does not answer this node, or turns it away: nothing begins, and nothing is accepted.",
		Repair: "Bring Redis back, or its network. The other checks follow then.",
	},
	{Name: "redis-version", Severity: Error, Means: "Redis is older than 6.2.7: DTS needs the commands of 6.2 and, before 6.2.7, Redis lets scripts write though `min-replicas-to-write` forbids it.", Repair: "Run a newer Redis."},
	{Name: "eviction", Severity: Error, Means: "Redis evicts keys when it is full: with `allkeys-...` it throws away tasks and schedules, with `volatile-...` locks that are held and leases of leaders.", Warns: "It would evict keys, but has no `maxmemory`.", Repair: "Set `maxmemory-policy noeviction`."},
	{Name: "persistence", Severity: Error, Means: "Redis writes nothing to its disk, or a write has failed: a crash or a restart loses what is not there.", Warns: "Redis writes snapshots only, so a crash loses what came after the last one.", Repair: "Set `appendonly yes`; after a failed write, see the log and the disk of Redis."},
	{Name: "replication", Severity: Error, Means: "Fewer replicas follow than `min-replicas-to-write` asks for: Redis refuses every write.", Warns: "A failover may lose acknowledged writes; or, with `min-replicas-to-write` in a cluster, the primary after a failover would refuse every write.", Notes: "There is no replica; or a failover of a cluster may lose the newest acknowledged writes.", Repair: "Run replicas; with Sentinel, set `min-replicas-to-write 1` and `min-replicas-max-lag 2`; in a cluster, leave `min-replicas-to-write 0`, and set `--durability` where no accepted task may be lost."},
	{Name: "password", Severity: Warning, Means: "Redis takes commands of whoever reaches it, without a password: they can read, change and delete everything, and so can what runs here and may connect to it.", Repair: "Set `requirepass` or a password of the user `default` in Redis, and the password in `--redis`."},
	{Name: "memory", Severity: Error, Means: "Redis has little memory left: above 95 %, ticks are held back.", Warns: "Redis uses more than 90 % of its memory: submissions are refused.", Notes: "Redis uses more than 80 % of its memory, or `maxmemory` is not set.", Repair: "Give Redis more memory, or keep less: see \"Redis is full\"."},
	{Name: "latency", Severity: Warning, Means: "Redis answers this node slowly, so everything is late.", Repair: "Look at the network, at the load of the machine of Redis, and at `SLOWLOG GET`."},
	{Name: "clock", Severity: Warning, Means: "The clocks of this node and of a primary of Redis differ by more than a second. Tasks follow the clock of Redis, whatever nodes have.", Repair: "Let all machines follow the same time (chrony, ntpd)."},
	{Name: "listpacks", Severity: Warning, Means: "Redis packs large hashes or sorted sets into lists, which it reads from the start to find one field: each script takes longer.", Repair: "Set `hash-max-listpack-entries` and `zset-max-listpack-entries` back to 128 or so."},
	{Name: "nodes", Severity: Error, Means: "No living node has the role scheduler, so nothing becomes due.", Warns: "No living node with the role worker takes tasks, so nothing runs.", Notes: "Nodes have died, are cordoned, or have different versions.", Repair: "Start a node with the role scheduler; uncordon nodes that are to run tasks again (`dtsctl node uncordon`); finish an upgrade that stopped half-way, or go back."},
	{Name: "leaders", Severity: Warning, Means: "Some partitions have no leader. After a crash of their leader that is so for the time of a lease; if it lasts, no scheduler node takes them.", Repair: "Look at the logs of the scheduler nodes if it lasts longer than `--lease-ttl`."},
	{Name: "overdue", Severity: Error, Means: "Something has been due for more than a minute, and no leader has looked at it: tasks, ticks, or runs whose worker has died.", Warns: "The same, but Redis is almost full, so ticks are held back.", Repair: "See that scheduler nodes run, and what they log."},
	{Name: "unserved-queues", Severity: Warning, Means: "Tasks wait in queues that no living worker serves.", Repair: "Start a worker that serves them (`--queues`), or move the tasks (`dtsctl task change ID --queue`)."},

	{Name: metaLost, Severity: Error, Means: "`dts:meta`, which says how many partitions there are, is gone or lacks a field, and the data is there: as after DEL, an eviction, or an incomplete restore. Other keys may be gone, too.", Repair: "Writes it again, as this node knows it.", Repairs: true, OfData: true},
	{Name: keyType, Severity: Error, Means: "A key has the wrong type, as somebody else has written to it: whatever needs it fails, and the other checks say what they pass over because of it.", Repair: "Puts the key aside: see \"What is put aside\". Other checks then mend what they can.", Repairs: true, OfData: true},
	{Name: "task-unreadable", Severity: Error, Means: "The definition or the state of a task cannot be read: it does not run.", Repair: "Puts the task aside: see \"What is put aside\". Somebody else has written to these keys: find out who, and submit the task again.", Repairs: true, OfData: true},
	{Name: "state-lost", Severity: Error, Means: "A task has no state, and an attempt of it is queued, has begun or has ended.", Repair: "Gives it the state with which it is listed. No number of an attempt begins twice. One that waits for its next attempt waits until then. One whose run is leased is left alone: its worker, if it lives, brings the state back within seconds. A run of a workflow that runs goes on. When the lease is over, nobody knows how it ended: it has failed, with the outcome `lost`. So has a task with `max_attempts: 1` that is listed nowhere, as it may have run. No attempt runs again by itself: `dtsctl task retry ID` runs what may run twice.", Repairs: true, OfData: true},
	{Name: "task-lost", Severity: Error, Means: "A task that had not ended, as far as its state or a list tells, has lost its definition, as after an eviction: it does not run.", Repair: "Puts what is left of it aside: see \"What is put aside\". Submit the task again.", Repairs: true, OfData: true},
	{Name: "payload-lost", Severity: Error, Means: "The long payload of a task is not there: its attempts fail at once.", Repair: "By hand: give it another payload while it waits (`dtsctl task change ID --payload`), or submit it again under another id.", OfData: true},
	{Name: "scheduled-lost", Severity: Error, Means: "A task is scheduled and waits nowhere, or for a time at which it is not due: it would never run, or at the wrong time.", Repair: "Has it wait for its due time.", Repairs: true, OfData: true},
	{Name: "queued-lost", Severity: Error, Means: "A task is queued, and its leader does not look after it, or only long after now: if its delivery is lost, it never runs.", Repair: "Has the leader look after it now.", Repairs: true, OfData: true},
	{Name: "running-lost", Severity: Error, Means: "A task runs without a run lease, or with one that ends long after now, or is not listed as running: if its worker dies, nobody notices.", Repair: "Leases the run for a minute. Then its worker has extended the lease, or the leader begins the next attempt.", Repairs: true, OfData: true},
	{Name: "finished-lost", Severity: Warning, Means: "A task that has ended is not listed, or would never be forgotten.", Repair: "Lists it, until its retention is over.", Repairs: true, OfData: true},
	{Name: "index-drift", Severity: Error, Means: "A task is listed in a set of another state: it could run again, count as running, or be forgotten before its end.", Repair: "Removes the entry. The state of the task counts.", Repairs: true, OfData: true},
	{Name: "backlog-unlisted", Severity: Error, Means: "Tasks wait for room in a queue, and leaders do not know that any wait there: they would never run.", Repair: "Puts the queue into the backlog.", Repairs: true, OfData: true},
	{Name: leftovers, Severity: Warning, Means: "Entries, results, attempts or a log are left of a task that had ended and does not exist: they take memory. Or its end is in the outbox, and nothing can follow it.", Repair: "Deletes them.", Repairs: true, OfData: true},
	{Name: "id-never-forgotten", Severity: Warning, Means: "The id of a deleted task would be taken for ever.", Repair: "Puts it at the end of the order in which ids are forgotten.", Repairs: true, OfData: true},
	{Name: entryUnreadable, Severity: Error, Means: "An attempt, a checkpoint, a line of a log, a revision, a record of a ledger, a tick that waits, what became of a schedule's ticks, an entry of an outbox, a capacity of a queue, a limit, its slots in a partition, a namespace, the entry or the cordon of a node or a name in a backlog cannot be read: it is left out.", Repair: "Puts the entry aside: see \"What is put aside\".", Repairs: true, OfData: true},
	{
		Name: listIndex, Severity: Warning,
		Means: "Lists with a filter do not find a task, as one that a program with an earlier release of package `dts` has " +
			"created; or the index of lists cannot be read, or its leader does not keep it in order.",
		Notes:   "There is no whole index of lists yet: the detail says why, and how much of it is there.",
		Repair:  "Has the leader build the index of the partition anew. If it does not keep it in order: see what it logs.",
		Repairs: true, OfData: true,
	},
	{Name: "unconverted", Severity: Warning, Means: "Tasks of an older layout could not be converted: DTS does not know them any more.", Repair: "By hand: they are in `dts:{p}:unconverted`: see \"Upgrading\".", OfData: true},

	{Name: unreadable, Severity: Error, Means: "The definition of a schedule cannot be read, or is lost: it does not tick.", Repair: "Puts a definition that cannot be read aside: see \"What is put aside\". If there are earlier revisions, it comes back from these, paused; else its ledger goes with it. What is left of a lost one stays. Put it again (`dtsctl schedule put`).", Repairs: true, OfData: true},
	{Name: notLookedAt, Severity: Error, Means: "A schedule is active, and its leader would not plan its next tick, or only after its time, or leaves a tick waiting.", Repair: "Has the leader look at it now. Ticks that it has missed are misfires.", Repairs: true, OfData: true},
	{Name: "schedule-drift", Severity: Error, Means: "A schedule is not listed, or its leader looks at it though it is paused.", Repair: "Lists it, or removes it from those at which leaders look.", Repairs: true, OfData: true},
	{Name: scheduleLost, Severity: Error, Means: "A schedule has lost its definition, as after an eviction, and earlier revisions are left: it does not tick.", Repair: "Brings the newest of these back, paused, to tick from then on. It has a new number: an audit names the lost one. Its note says what is not known: check it, and resume it.", Repairs: true, OfData: true},
	{Name: "schedule-leftovers", Severity: Warning, Means: "Entries are left of a schedule that does not exist, and nothing that says what it was.", Repair: "Deletes them.", Repairs: true, OfData: true},
	{Name: heldBack, Severity: Warning, Means: "A schedule's ticks are held back, as its queue is at its capacity. When there is room, its misfire policy decides about them.", Repair: "By hand: start workers for the queue, or raise its capacity (`dtsctl queue capacity`).", OfData: true},
	{Name: "live-lost", Severity: Error, Means: "A task of a schedule has not ended, and does not count as live: with the overlap policies skip, queue and replace, the next tick starts beside it.", Repair: "Counts it as live again.", Repairs: true, OfData: true},
	{Name: liveEnded, Severity: Error, Means: "A task that has ended counts as live for its schedule: triggers, and ticks that wait, do not go on before the next tick, unless the overlap policy is allow.", Repair: "Removes it from those that are live. A tick that waits goes on.", Repairs: true, OfData: true},
	{Name: ledgerHoles, Severity: Error, Means: "A decided tick of the last hour has no record, or a record has no tick that explains it.", Repair: "By hand: see `dtsctl schedule audit ID`; `dtsctl schedule backfill ID` runs what was missed.", OfData: true},
}

var checksOfLocksAndQueues = []Check{
	{Name: "lock-unlimited", Severity: Error, Means: "A lock never expires: if its holder dies, nobody gets it any more.", Repair: "Lets it expire after its time to live. A holder that lives renews it.", Repairs: true, OfData: true},
	{Name: "lock-unreadable", Severity: Error, Means: "What Redis has of a lock cannot be read: nobody can take it before it expires.", Repair: "Puts it aside, so that it is free: see \"What is put aside\".", Repairs: true, OfData: true},
	{Name: "lock-drift", Severity: Warning, Means: "A lock is held and not listed, or the other way round.", Repair: "Lists what is held.", Repairs: true, OfData: true},
	{
		Name: "key-drift", Severity: Error, Repairs: true, OfData: true,
		Means: "A task waits for the end of another task with its key, and that other task has ended: the waiting task " +
			"never runs. Or Redis knows a key without a task.",
		Repair: "Makes the waiting task due, or forgets the key.",
	},
	{
		Name: slotLeaked, Severity: Error, Repairs: true, OfData: true,
		Means:  "A task holds a slot of a limit, and its state does not say so: the slot is never free again.",
		Repair: "Frees the slot. The states of tasks count.",
	},
	{
		Name: slotLost, Severity: Error, Repairs: true, OfData: true,
		Means: "A task is queued or running under a limit, and holds no slot of it: more tasks can run than the limit " +
			"allows.",
		Repair: "Has the task hold its slot. If more tasks hold slots than there are then, no task takes one until fewer do.",
	},
	{Name: "lease-unlimited", Severity: Error, Means: "The lease of a partition never expires: if its leader is dead, nobody leads it any more.", Repair: "Lets it expire after the time that its leader asked for (`--lease-ttl`). A leader that lives renews it.", Repairs: true, OfData: true},

	{Name: deliveryMissing, Severity: Warning, Means: "A task has been queued for more than a minute, and its queue has no delivery of it: its leader has not put it there.", Repair: "Has the leader look after it now.", Repairs: true, OfData: true},
	{Name: "delivery-lost", Severity: Warning, Means: "A delivery says that it waits, or that a worker has it, and is in no such list: no worker gets it until a leader looks after its task.", Repair: "Puts it where the next worker takes it.", Repairs: true, OfData: true},
	{Name: "delivery-unleased", Severity: Warning, Means: "A worker has taken a delivery without a lease: it does not come back if the worker dies.", Repair: "Gives it a lease that is over, so that it comes back unless its worker settles it.", Repairs: true, OfData: true},
	{Name: deliveryLeftovers, Severity: Note, Means: "A delivery waits whose attempt is not queued. A worker that takes it drops it.", Repair: "Deletes it.", Repairs: true, OfData: true},
	{Name: queueUnlisted, Severity: Warning, Means: "A queue has deliveries, and asynq does not know it: asynqmon does not show it, and nobody tends it.", Repair: "Lists it.", Repairs: true, OfData: true},
	{Name: queueMisnamed, Severity: Note, Means: "asynq lists a queue whose name no queue of DTS can have: lists leave it out. Another program uses it, or somebody has written to Redis by hand.", Repair: "By hand: if no program uses it, remove it (`redis-cli SREM asynq:queues NAME`).", OfData: true},
	{Name: serverLeftovers, Severity: Note, Means: "asynq lists servers that have been dead for more than an hour.", Repair: "Removes them from the list.", Repairs: true, OfData: true},
}
