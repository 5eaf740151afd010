// Package model is a model of DTS's protocol: what the scripts in lua/ do to Redis, and what clients, leaders and
// workers do with their answers. Its tests search all states that it can reach, breadth first, and check the promises
// of the README in each of them. What the search walks through is then replayed against the real scripts on a real
// Redis, so that the model stays one of them.
//
// # What is modelled
//
//   - Tasks with one or two attempts (max_attempts): where they wait, the claim, the run and its lease, the request to
//     stop.
//   - Their deliveries in asynq's queues: pending, missing in the list of those that are, taken, taken and abandoned,
//     archived, and of which claim they are.
//   - A schedule with some ticks: its cursor, ledger, live tasks and waiting ticks, under the policies skip and queue.
//   - The lease of the partition, with fences that only grow.
//   - With Size.Follow, what follows each end of a task: the mark in the state, the entries of the outbox, and which
//     follow-ups exist, by the attempt with which the task ended. These do nothing, but a worker restores one that a
//     failover has lost. With Size.Retries, the outbox can have the end before and the next one at once.
//   - With Size.Steps, a run of a workflow: its own task, which is claimed and then carried on by the leader; its text,
//     with what it has of each step; and what the outbox has of it. Each step needs the one before, or with Size.Apart
//     none. Clients cancel the run and its steps, and run it again once. With Size.Signals the first step needs one
//     that waits for a signal, which clients give, early, late and again.
//   - Leaders: acquire, renew and release the lease; claim; hand over, and again; look after; recall and take back;
//     reap; tend the queues; plan and fire; read the outbox, then the task, and follow up; read the outbox, then the
//     run with the tasks that have ended, and have the run go on. Workers: take, give back, begin, extend, finish,
//     settle; after a failover restore tasks, end the attempts before theirs, and report ends again. Clients: submit,
//     submit again, cancel; with Size.Forgets delete what has ended, with Size.Retries run it again.
//
// The functions in scripts.go, scripts_queue.go and scripts_schedule.go have the guards of the Lua scripts, in their
// order, and their refusals, and so have those in scripts_flow.go. There, what the leader plans between its calls is
// part of advance. What a process knows can be outdated when it acts on it, as the other processes do not wait. So a
// process that was stopped and goes on later is one that is slow.
//
// Time has no numbers: a lease, a due time or a wait is over, or is not, and may end at any moment. That is more than
// what happens, so no promise depends on how long anything takes.
//
// Everything may die at any moment: leaders, workers, the lease of a leader that lives. With Size.Copies, a copy of any
// call that a process may make can be on its way for as long as it likes: then a reply is lost and the call is
// repeated, a call arrives twice, or long after its sender has died. With Size.Lag, a replica lags some writes behind,
// and once a failover loses them; with Size.Early that is all that was written since before the first claim. With
// Size.Deletes, somebody deletes lists of deliveries. A search without bounds on the number of faults is finite all the
// same, as states that differ in names only (of runs, claims, fences, leaders and workers) are one.
//
// # What is checked
//
// Type Promise has the list. All but one are about single steps, or the state to which one leads. Ends is about all
// states together: from each, a state in which everything has ended (tasks, deliveries, due ticks) and no end owes a
// follow-up can be reached by leaders, workers and the passage of time alone. So nothing is ever stuck, whatever has
// happened before.
//
// A failover that loses writes may break these, and the tests check that it breaks no others: what was accepted can be
// gone; what has ended can run again; an attempt can be begun twice, and a tick's task or a follow-up made twice; a
// step can be released twice, and its task be there before that; an attempt can be taken for lost while its worker
// lives. Even then nothing is stuck, a stale leader changes nothing, a task makes no more than max_attempts attempts by
// their numbers, a tick has one task or one record, each end has its follow-up or owes it, the verdict of a step is
// that of its task, and a report counts only for the task of which the run began an attempt, not for a later one of the
// same name, and only for the attempt of that number, unless another run has begun it.
//
// Each guard of the protocol is taken away in a test of its own, and the search must find the promise that the guard is
// for. The shortest way there, which the test prints with -v, says in a dozen lines why the guard is needed.
//
// # How it is compared with the scripts
//
// Traces that take a step of every Class (the script, what it finds in Redis, and its answer), and walks at random,
// happen in a Redis of their own. Time passes by moving the data back: an end of a lease, or a due time, becomes one of
// long ago. After each step, the reply and everything in Redis that the model has must be as the model says. A change
// of a script that changes what it does fails here. Runs of workflows are planned by package workflow there, and
// written by package partition, so that these must agree with the model as well. What package scheduler does between
// its calls is not replayed.
//
// # Sizes
//
// All states of these are searched; those in the second half in the long form of the tests only (TEST_LONG=1). The
// names are those of the fields of Size.
//
//	tasks  ticks  attempts  leaders  workers                              states       steps
//	1      -      1         1        2        Cancels                      7,457      79,375
//	1      -      2         1        1        Backlog                     20,674     162,528
//	1      -      1         2        1        Cancels                     15,896     184,583
//	-      2      1         1        1        Overlap Queue               52,344     393,171
//	1      -      1         1        1        Lag 2                       57,749     448,816
//	1      -      1         2        1        Lag 1                      139,219   1,492,007
//	1      -      2         1        1        Lag 5 Early                 98,389     755,640
//	1      -      1         1        1        Deletes                      1,510      10,839
//	1      -      1         1        1        Cancels Follow               5,160      44,288
//	1      -      1         1        1        Lag 1 Follow                51,589     409,234
//	1      -      1         1        1        Cancels Forgets Follow       5,703      53,000
//	1      -      1         1        1        Cancels Retries             55,488     499,395
//	1      -      1         1        1        Retries Follow              90,354     773,434
//	-      1      1         1        1        Follow                       2,356      16,542
//	-      -      1         1        1        Steps 2                     42,470     307,486
//	-      -      1         1        1        Steps 1 Cancels             26,851     246,487
//	-      -      1         1        1        Steps 1 Retries             38,992     272,594
//	-      -      1         1        1        Steps 1 Signals              6,780      52,736
//	-      -      1         1        1        Steps 1 Lag 2              122,213     865,237
//
//	1      -      2         1        1        Cancels Deletes Backlog     69,749     649,338
//	1      -      2         1        1        Lag 2                    1,051,198   8,628,056
//	1      -      2         1        1        Lag 9 Early                308,774   2,434,548
//	1      -      2         1        1        Lag 12 Early               744,164   6,014,365
//	1      -      1         2        1        Lag 2                      338,368   3,668,012
//	1      -      1         1        1        Backlog Lag 5              353,887   2,838,705
//	1      -      1         1        2        Lag 5                      767,731   7,704,435
//	1      -      2         1        2        Cancels Backlog            224,150   2,691,491
//	1      -      2         2        1        Cancels                    287,262   3,525,511
//	1      -      2         1        1        Cancels Backlog Follow      83,957     785,179
//	1      -      1         2        1        Cancels Follow              56,783     700,200
//	1      -      1         2        1        Forgets Follow              32,381     378,020
//	1      -      1         1        1        Cancels Forgets
//	                                          Retries Follow           1,944,639  21,488,454
//	1      -      1         1        1        Cancels Lag 2 Follow       325,409   3,057,957
//	1      -      1         1        1        Lag 5 Follow               524,745   4,301,184
//	1      -      1         2        2        Cancels Backlog            130,070   1,894,214
//	1      -      1         1        1        Copies                     168,873   1,473,763
//	2      -      1         1        1                                   161,554   1,556,786
//	-      2      1         1        1        Overlap Skip                52,014     390,996
//	-      3      1         1        1        Overlap Queue            1,838,221  15,074,956
//	-      1      1         1        1        Copies                      97,323     820,738
//	-      1      1         1        1        Lag 5                      256,593   1,932,612
//	-      2      1         1        1        Overlap Queue Follow       317,460   2,709,728
//	-      1      1         1        1        Lag 2 Follow               119,253     931,242
//	-      -      1         1        1        Steps 2 Cancels            509,527   5,536,723
//	-      -      1         1        1        Steps 1 Cancels Retries    721,339   6,929,388
//	-      -      2         1        1        Steps 1                     30,827     216,223
//	-      -      1         2        1        Steps 1                     43,733     438,691
//	-      -      1         1        1        Steps 1 Copies             232,868   1,872,622
//	-      -      1         1        1        Steps 1 Lag 5              541,856   3,907,011
//	-      -      1         1        1        Steps 2 Retries          2,433,336  19,675,958
//	-      -      1         1        1        Steps 2 Apart              691,507   5,616,186
//
// A state of a run takes some 750 bytes, so the last but one takes 1.8 GB and a minute and a half, without the race
// detector and with GOGC=50. Larger ones were searched once each, in 1 to 6 minutes beside other programs, and broke no
// other promise. They are in no form of the tests:
//
//	tasks  ticks  attempts  leaders  workers                              states       steps  memory
//	-      -      1         2        1        Steps 1 Cancels            979,348  12,889,729  0.8 GB
//	-      -      1         2        1        Steps 1 Lag 1            1,134,341  12,181,743  0.9 GB
//	-      -      1         1        1        Steps 1 Retries Lag 1    1,004,181   7,500,290  0.7 GB
//	-      -      1         1        1        Steps 1 Cancels Lag 2    2,001,714  19,842,592  1.5 GB
//	-      -      1         1        1        Steps 2 Lag 1            1,195,634   9,217,366  0.9 GB
//	-      -      1         2        1        Steps 2                  1,717,133  19,810,145  1.4 GB
//	-      -      2         1        1        Steps 2                  4,563,947  37,541,779  3.4 GB
//	-      -      1         1        1        Steps 2 Copies           7,320,542  66,348,452  5.4 GB
//
// # What is not modelled
//
// Of runs of workflows: retention, pauses and other asks, deadlines, max_runs, steps that have no task, more than two
// steps; the look at all steps that a leader takes every ten minutes; two texts of a run that have one cursor.
//
// Limits: package limits has a model of them.
//
// Changing a task; running one again more than once, or one of a tick; a failover that loses that, or a deletion;
// follow-ups of some ends only; changing, pausing and triggering a schedule, backfills,
// and the policies allow and replace; events, logs, progress and checkpoints; wake-ups, without which everything goes
// on later; groups of calls, of which a script handles each by itself; quotas, lanes and types; workers by HTTP and
// asynq's own servers, but for what a leader makes of a delivery that has ended; a failover of one shard of a cluster
// alone; a new primary whose clock is behind, so that a new task seems older than a claim from before; ends that a
// worker reports again when it has settled the delivery; queues in which more deliveries wait than enqueue searches
// for one. A leader that gets the same fence twice, as the failover in between has lost that it had it, counts as
// two.
package model
