package main

// drainCommands bounds the commands of a task in the drain of the smoke run. They are 7 to 9, as it depends on the load
// how many tasks share a call. Where many calls have one task, they are 30 and more.
const drainCommands = 12

// rows is every row of the table, in its order.
func rows() []row {
	many := &stock{}
	const drainMethod = "All tasks are stored and the leaders hand over what they want to; then a worker with 64 slots starts, in this process " +
		"for both. From the start of the first handler to the last write about the last task. "
	return []row{
		drainRow("drain", "Drain of immediate tasks, no-op handlers",
			drainMethod+"Handlers count and return; payloads have 200 B. Workers serve the three default queues; the tasks are in `default`. "+
				"asynq polls every 20 ms.",
			defaultQueues, noopWork, []goal{atLeast("DTS / asynq", 0.4), atMost("commands of Redis, DTS", drainCommands)}),
		drainRow("drain-one-queue", "Drain of immediate tasks, no-op handlers, one queue",
			drainMethod+"As above, but the workers serve one queue: asynq asks Redis once for each task then.",
			oneQueue, noopWork, nil),
		drainRow("drain-http", "Drain of immediate tasks, HTTP handlers",
			drainMethod+"DTS runs its type `http`; asynq's handler makes the same call with Go's client. The server that is called is in this process as well and "+
				"answers 204.",
			defaultQueues, httpWork, []goal{atLeast("DTS / asynq", 0.4)}),
		drainRow("drain-go", "Drain of immediate tasks, handlers in Go",
			drainMethod+"The handlers read their payload from JSON and compute a hash.",
			defaultQueues, goWork, nil),
		budgetRow(),
		keptRow(),
		countsRow(),
		fairRow(),
		limitsRow(),
		routesRow(),
		libraryRow(),
		fleetHTTPRow(),
		herdRow(),
		orderRow(),
		latenessRow(),
		waitingRow(),
		listsRow(many),
		pageRow(many),
		viewersRow(many),
		pingRow(),
		groupRow(),
		submitRow(),
		memoryRow(),
		idleRow(),
		killRow(),
		leaderKilledRow(),
		leaderStoppedRow(),
		redisRestartedRow(),
		queuesRow(),
		fleetRow(),
		scaleRow(),
		nodesRow(),
		schedulesRow(),
		dueRow(),
		ledgerRow(),
		flowChainRow(),
		flowManyRow(),
		flowBlockedRow(),
		flowLateRow(),
	}
}
