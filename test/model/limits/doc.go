// Package limits is a model of how DTS limits how many tasks run at once. Its tests search all states that it can
// reach, breadth first, and check in each of them that no limit is exceeded and that nothing is stuck. The model
// came before the scripts: this page says what they must do. ADR 49 says why.
//
// # The problem
//
// A limit has slots. A task that has this limit holds one of them while it is live: queued or running. Tasks of one
// limit are in several partitions. Each partition has a leader, which claims tasks. No script spans two partitions,
// and a process can believe that it leads when another one does. Calls of scripts are lost, come twice, or come
// late.
//
// # What Redis has
//
//	partition p   holds:<limit>   set of what holds a slot: a live task is as many members as it costs
//	              caps            hash: limit to "version cap tokens"; "@" to the newest version
//	home          use:<limit>     hash: p to "version count tokens since asked", and four words more while p waits
//	                              for tokens or for several slots; "@" to when the bucket is full again
//	no partition  dts:rules       hash: limit to its rule
//
// The home of a limit is the partition that the name of the limit belongs to. The line of a limit is the partitions
// that wait for a slot, in the order of "since", the time since when each of them waits. "asked" is when p asked last.
// The home has no rule: a leader reads the rules, and says in each call of settle what the limit allows. A leader that
// does not know a change yet asks by the old rule. In the model, the home has the slots. A cap says how many tasks may
// hold a slot in p. A count says how many slots p may use. Caps and counts are absolute: no script adds to them, and
// they do not expire. A version numbers what p has of a limit. It comes from one counter of p, and changes with each
// change of the cap. Only scripts of p's leader take a new version.
//
// In each partition, holders <= cap <= count, and the sum of the counts is at most the slots. So a limit holds
// although nobody ever sees all of it at once. To raise a cap, the home comes first. To lower one, the partition
// comes first.
//
// # The scripts
//
// recount (in p; fence, limit, at least) compares the fence. It sets the cap to the number of holders, and takes a
// new version, beyond "at least". It replies the cap and its version. With it a leader begins, gives back what is
// free, and begins anew after a loss.
//
// settle (at the home; p, version, have, want, least, tokens) tells the home that p has the cap "have" in that version,
// and asks for more slots, of which fewer than "least" are of no use: the next task needs more. It refuses a version
// that is older than the version that the home knows, and replies the newer version. Else:
//
//	free  = slots - counts of others - have - what each partition before p in the line needs at least
//	count = have + min(want, free), or have if free < least
//	count = max(count, the count before), if the home knew this version
//
// So "have" is never refused: these slots are used. A repeat lowers nothing, as the reply to the first call may have
// become a cap by now. The reply has the count, and whether others want slots: others wait, or the counts are more than
// the slots, because somebody has lowered these. One call settles many limits of the same home.
//
// The count also decides the place of p in the line:
//
//	count >= have + want           p has all that it wants: it leaves the line
//	have < count < have + want     p has some of it: it goes to the end of the line
//	count = have, want > 0         p has none of it: it keeps its place, or joins at the end
//
// If p kept its place with some slots, it would stay the first one while it has more tasks than there are slots. It
// would get each slot again that it gives back, and all others would wait for ever.
//
// claim (in p; fence, and for each limit the version, count and tokens of the newest reply) compares the fence. For
// each limit whose version in Redis is exactly that of the call, it raises the cap to the count, adds the tokens,
// and takes a new version. Then it takes tasks of the lane while each of their limits has fewer holders in Redis
// than its cap in Redis. In this script, a task that is taken becomes queued and a holder. The reply has the caps
// and their versions.
//
// Whatever ends an attempt (finish, reap, cancel, take_back, snooze, move) takes the task out of the holders in the
// same script. These scripts read the state of the task and not its definition. So the claim notes in the state
// which limits the task holds. A task that a worker reports after a loss becomes a holder again, also beyond the cap.
//
// # The leader
//
// For each limit that its tasks need or that it has a cap of, a leader is in one of three phases:
//
//	new term, loss of writes                    it gives back what is free,
//	          |                                 or there are more holders than the cap
//	          v                                                  |
//	     MustCount  --recount-->  MustTell  --settle-->  Ready --+--> MustCount
//	          ^                      |                   |   ^
//	          +------- refused ------+-------------------+   +--- claim, settle again
//
// It claims only while all limits of the lane are Ready and have room: more slots granted than holders. If the
// newest reply of a home said that others want slots, room is only what this home has granted above the cap.
//
// It gives back what is free of a limit if no task waits for it. If others want slots, it also gives back a free
// cap, though tasks wait: it recounts, tells the home, and gets its turn in the line. What the home has granted in
// turn it keeps until it has claimed.
//
// A leader that waits settles again when the home wakes it, and once a second. A leader that has a cap settles when
// the home wakes it, and every 10 s, to hear that others want slots. Wake-ups are not modelled: each leader may
// settle at any time.
//
// A version is written in p before the home hears of it. So the caps name each limit whose home may have a count of p,
// also if the count was granted and never used. A leader that begins finds it there. A field of caps may go when its
// cap is 0 and the home was told so, with nothing wanted. The key of use may expire minutes after all of its counts are
// 0: no call with an older version can still come then.
//
// # Several limits
//
// Limits have an order, the same for all tasks. A leader asks for a limit only while it has room in those before.
// While it waits for one, it keeps what it was granted of those before, and gives back what it has of those behind
// if others want it. So nobody waits for a limit while holding one behind it, and there is no circle of leaders that
// wait for each other. The order goes from narrow to wide (key, type, queue, namespace, all). So only a slot of the
// narrower limit is kept without being used, and never one of the limit that most others need.
//
// # Tokens of a rate
//
// The home has a bucket, which the time of Redis fills (GCRA). A grant of tokens belongs to the version, as that of
// slots does. A repeat of settle replies the same tokens, and takes none again. A repeat of claim finds another
// version, and adds none again. A leader asks for tokens only while it has room, and waits for them as for a limit
// behind. A claim takes a task only for a token of each limit with a rate. What was granted to a version that has
// changed before the claim is lost, as when a leader dies. Then fewer tasks start, never more.
//
// # Costs
//
// A task can need several slots and tokens of each limit. Then a claim takes it only if so many are free, a leader has
// room if it has so many, and it asks for so many at least. It gives back a grant that is less, if others want slots.
// The home has a second line, of the partitions that wait for tokens: it keeps for each as many as it needs. A
// partition leaves this line when it gets some, or asks for none. A leader asks for nothing if the cost is more than
// the slots.
//
// # What is modelled besides
//
// Leaders that die at any moment, or stand still and go on as stale ones (Size.Stale, Size.Expires); a copy of any
// call that arrives late, after its sender has died, or twice (Size.Copies); slots that somebody raises and lowers
// (Size.Changes); tasks that are cancelled or run again; a partition whose server is silent for good (Size.Silent).
// The home forgets after 3 s that such a partition waits, so that it holds up nobody. Time has no numbers: whatever
// may happen some day may happen at once.
//
// # What is checked
//
// Type Promise has the list. Two of them are about all states together:
//
//   - Finishes: from each state, a state in which all tasks have ended and all numbers are right can be reached by
//     leaders, workers and time alone. So there is no state in which a task waits, slots are free, and nobody can
//     hand one over.
//   - Served: no partition waits for ever while nobody dies, and each process does some day what it can do all the
//     time. A partition waits while none of its tasks is live. The search looks for a circle of states in which a fair
//     run can stay. All others may have work without end.
//
// A limit that was lowered binds as soon as the counts are not more than its slots. Until then leaders take nothing
// that they know to be too much, and counts only fall.
//
// Each guard of type Guard is taken away in a test, and the search must find the promise that it is for. The
// shortest way there is printed with -v. The limit does not need the fences, as the versions suffice: a stale leader
// can take no task beyond the cap. They are there for promise 4 of the README, by which a stale leader changes
// nothing.
//
// # A failover that loses writes
//
// After it, no work starts for a second and a half (ADR 28). In that time, workers report what they run and what has
// ended, and then leaders recount and tell the homes.
//
//   - If all do so in time (Size.Prompt), no limit is exceeded. What Redis has can be wrong for that moment: more
//     holders than the cap, a cap above the count, counts above the slots.
//   - The model knows the limits of each task that a worker reports. In Redis, a task whose claim was lost has them in
//     its state only if it waited under them. Else it holds no slot until it ends, and can exceed the limit.
//   - If a worker or a leader is late, or dies as well, a limit can be exceeded. After a partition loses writes,
//     one task too many can run for each lost claim and each lost end. After a home loses writes, it can grant
//     again what it had granted in the lost time.
//   - In all cases it comes back: leaders tell more than there is, homes grant nothing meanwhile, and what becomes
//     free is given back. Finishes holds.
//   - A home that loses writes may grant the tokens of the lost time again, so that a rate can be exceeded by one
//     burst. A partition that loses claims has their tokens again.
//
// A version can be taken twice then. It does no harm: a leader goes beyond all versions that it knows, and a home
// that knows a newer one says so.
//
// # Sizes
//
// All states of these are searched; those in the second half in the long form of the tests only (TEST_LONG=1). The
// names are those of the fields of Size. Where they are not named, Slots and Limits are 1.
//
//	partitions  tasks                                    states       steps
//	2           1      Again Fair                         3,645      13,486
//	2           2      Again Fair                        15,942      65,998
//	2           1      Again Copies                     135,395     667,562
//	2           1      Stale 1 Expires                   81,824     553,848
//	2           2      Slots 2 Again Changes             92,514     518,126
//	2           1      Cancels Silent                    11,546      50,510
//	2           1      Limits 2 Again Lives Fair          1,262       6,162
//	1           2      Burst 1 Copies                    48,578     168,873
//	2           1      Slots 4 Costs 3 2 Again Fair       3,645      13,486
//	2           2      Slots 2 Costs 2 1 Again Lives Fair
//	                                                        812       2,964
//	2           1      Slots 3 Costs 2 1 Burst 2 Again Lives Fair
//	                                                        459       1,474
//	2           1      Lag 1 ThePartition Prompt        112,795     447,813
//	2           1      Lag 1 ThePartition               157,656     679,355
//	2           1      Lag 1 TheHome Prompt             169,819     717,693
//	2           1      Lag 1 TheHome                    202,408     874,900
//
//	3           1      Fair                             155,567     813,900
//	3           2      Again Fair                     1,439,457   8,530,902
//	3           2      Slots 2 Again Lives Fair          33,796     166,257
//	2           1      Burst 1 Again Fair                90,170     368,989
//	2           1      Stale 2 Again Expires          1,558,121  14,408,524
//	2           1      Slots 2 Again Changes Copies     670,970   4,360,922
//	3           1      Slots 2 Again Changes            811,666   5,550,862
//	2           1      Limits 2 Again Cancels Fair      634,490   4,210,564
//	3           1      Slots 3 Costs 3 2 1 Again Lives Fair
//	                                                      2,373      10,566
//	2           2      Slots 3 Costs 2 1 Again Changes  160,254   1,055,313
//	2           1      Slots 2 Costs 2 1 Again Copies   135,395     667,562
//	2           1      Limits 2 Slots 2 Costs 2 1 Again Lives Fair
//	                                                      1,262       6,162
//	3           1      Slots 4 Costs 2 1 1 Burst 2 Again Lives Fair
//	                                                     14,965      75,839
//	2           1      Again Lag 4 ThePartition Prompt  462,759   2,094,339
//	2           1      Again Lag 4 ThePartition         613,408   2,977,694
//	2           1      Again Lag 3 TheHome Prompt     1,209,616   5,654,087
//	2           1      Lag 2 Everything Prompt          357,682   1,533,855
//	2           1      Lag 2 Everything                 503,694   2,301,755
//
// A larger one was searched once, in 100 s, and broke no promise. It is in no form of the tests:
//
//	2           1      Stale 1 Expires Copies         4,256,400  34,666,370
//
// # What is not modelled
//
// How long a leader waits for its slot; limits that only some tasks have; more than two limits; queues that are full;
// wake-ups; the end of the fields of caps and use; leaders that disagree about what a limit allows; GCRA itself, and a
// home that loses tokens; what a lane and a task look like; the script that restores a task, which is one step here; a
// loss of writes together with copies or stale leaders, or two of them; tasks of several costs in one partition, which
// the tests of package limit have.
package limits
