-- settle: tells the home of limits how many slots a partition uses, and asks for more. What is used is never refused.
-- A partition that does not get all it asks for waits in a line: the home keeps the slots of a task for each one that
-- has waited longer, and one that gets some goes to the end. It gets none if they are too few for a task. There is such
-- a line for tokens, too. A repeat for the same version of a cap takes nothing back. Of a limit whose key is damaged,
-- nothing is granted.
-- includes: clock, number, damage, home, bucket
-- keys:
--   caps  HASH  only for its slot
-- args:
--   number  number  of the partition that asks
--   wakes   text    the channel of the leader of a partition, with "*" for the number of the partition
--   limits  (limit text, version number, have number, want number, least number, tokens number, start number, slots
--     number, rate number, per ms, burst number)*
--     have: the cap in that version; want: further slots; least: fewer of them are of no use; tokens: those that are
--     wanted; start: fewer of them are of no use; slots, rate, per and burst: what the limit allows, rate 0 for none
-- reply:
--   now      time
--   answers  (newer number, count number, tokens number, wanted flag, next time)*  newer: the home knows this newer
--     version, and the rest is 0; else 0. count: slots that the partition may use; tokens: those that this version may
--     use; wanted: other partitions wait, or more slots are in use than there are; next: when there are tokens again,
--     none if there are some
-- refuses: nothing
-- repeat: harmless: slots and tokens belong to the version, which has them already
-- full: refused
local answers = {}

-- grant settles one limit, and returns the answer.
local function grant(limit, version, have, want, least, tokens, start, slots, rate, per, burst)
  local key = use_key(limit)
  local uses, sum = read_use(key)
  local own = uses[me] or { version = 0, count = 0, tokens = 0, since = 0, starts = 0, back = 0 }
  if version < own.version then
    return { own.version, 0, 0, 0, false }
  end
  local is_repeat, was, waited = version == own.version, own.count, own.since
  local longer, others = kept(uses, own, 'since', 'least')
  local free = math.max(0, slots - (sum - own.count) - have - longer)
  local count = have + (free >= least and math.min(want, free) or 0)
  count = is_repeat and math.max(count, own.count) or count
  local next_token = false
  if rate == 0 then
    own.starts = 0
  elseif not is_repeat or own.tokens == 0 then
    local first = kept(uses, own, 'starts', 'start')
    own.tokens, next_token = take_tokens(key, rate, per, burst, tokens, math.max(start, 1), first)
    own.starts = own.tokens == 0 and tokens > 0 and (own.starts > 0 and own.starts or now) or 0
    own.back = next_token or now
  end
  own.version, own.count, own.least, own.start = version, count, math.max(least, 1), math.max(start, 1)
  if count >= have + want then
    own.since = 0
  elseif own.since == 0 or count > have then -- who gets some waits behind all others for more
    own.since = now
  end
  uses[me] = own
  sum = sum - was + count
  write_use(key, own)
  if sum > 0 then
    redis.call('PERSIST', key)
  else
    local full = tonumber(redis.call('HGET', key, '@') or 0)
    redis.call('PEXPIRE', key, int(math.max(USE_KEPT, full - now)))
  end
  if count < was or waited > 0 and own.since == 0 and count == was then -- nothing is kept for it any more
    wake_others(uses, limit, 'since')
  elseif own.since > 0 and waited == 0 then
    wake_others(uses, limit, 'count')
  end
  return { 0, count, own.tokens, (sum > slots or others > 0) and 1 or 0, next_token }
end

for limit, version, have, want, least, tokens, start, slots, rate, per, burst in limits() do
  local answer = try(grant, limit, version, have, want, least, tokens, start, slots, rate, per, burst)
  for _, value in ipairs(answer or { 0, have, 0, 0, false }) do
    answers[#answers + 1] = value
  end
end
return { now, answers }
