-- advance: a leader carries on runs of workflows, as it has planned it. What follows in one run is written together,
-- unless something that the plan was made from has changed since; then nothing of it is.
-- includes: refuse, fence, run_guards, run_tasks
-- keys:
--   lease  STRING
--   defs   HASH    the script makes further keys of the same partition
-- args:
--   fence    fence    that this leader got with the lease
--   events   channel
--   control  channel
--   wake     channel
--   ops  (op text, name text, a text, b text, at time)*  what is done, one run after the other. "run" begins a run:
--     name is its task, a the SHA-1 of its text as the leader has read it, "" if it had none, and b the new text, ""
--     for none. What the plan was made from: "asked", a: what was asked of the run; "saw": a is the state of the task
--     name, the run's own or that of a step, as text, "" if it has none. What is written: "begin": the run's own task,
--     which is queued, begins; "pin", a: the definition of the run; "took": the entry name of the outbox is removed;
--     "look": the run is planned again at that time; "release": the task name of a step is created with definition a;
--     "again": it begins again with definition a and b further attempts; "stop": it is told to stop; "tie": the task
--     name of a step is kept as long as the run; "free": it is kept until then; "late": the task name of a step has
--     ended after the run, and is kept as long as that; "end": the run's own task ends in state a,
--     with error b, and is kept until then; "result", a: of the run
-- reply:
--   answers  text*  for each run planned, or what has changed: run, asked or saw
-- refuses:
--   FENCED  another leader holds the lease of the partition, or none does
-- repeat: harmless: the texts of the runs have changed
-- full: works
local leader = other_leader()
if leader then
  return refuse('FENCED', leader)
end

local answers, run = {}, nil
for op, name, a in ops() do
  if op == 'run' then
    run = name
    answers[#answers + 1] = 'planned'
  end
  if guards[op] and answers[#answers] == 'planned' and not guards[op](name, a, run) then
    answers[#answers] = op
  end
end
local number = 0
for op, name, a, b, at in ops() do
  if op == 'run' then
    number, run = number + 1, name
  end
  if answers[number] == 'planned' then
    writes[op](name, a, b, at, run)
  end
end
return { answers }
