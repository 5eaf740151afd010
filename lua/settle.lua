-- settle: tells the home of limits how many slots a partition uses, and asks for more. What is used is never refused.
-- A partition that does not get all it asks for waits in a line: the home keeps a slot for each one that has waited
-- longer, and one that gets some goes to the end. A repeat for the same version of a cap takes nothing back. Of a limit
-- whose key is damaged, nothing is granted.
-- includes: clock, number, damage, home, bucket
-- keys:
--   caps  HASH  only for its slot
-- args:
--   number  number  of the partition that asks
--   wakes   text    the channel of the leader of a partition, with "*" for the number of the partition
--   limits  (limit text, version number, have number, want number, tokens number, slots number, rate number, per ms,
--     burst number)*
--     have: the cap in that version; want: further slots; tokens: starts that are wanted; slots, rate, per and burst:
--     what the limit allows, rate 0 for none
-- reply:
--   now      time
--   answers  (newer number, count number, tokens number, wanted flag, next time)*  newer: the home knows this newer
--     version, and the rest is 0; else 0. count: slots that the partition may use; tokens: starts that this version may
--     use; wanted: other partitions wait, or more slots are in use than there are; next: when there is a token again,
--     none if there is one
-- refuses: nothing
-- repeat: harmless: slots and tokens belong to the version, which has them already
-- full: refused
local answers = {}

-- grant settles one limit, and returns the answer.
local function grant(limit, version, have, want, tokens, slots, rate, per, burst)
  local key = use_key(limit)
  local uses, sum = read_use(key)
  local own = uses[me] or { version = 0, count = 0, tokens = 0, since = 0 }
  if version < own.version then
    return { own.version, 0, 0, 0, false }
  end
  local is_repeat, was, waited = version == own.version, own.count, own.since
  local longer, others = before(uses, own)
  local free = math.max(0, slots - (sum - own.count) - have - longer)
  local count = have + math.min(want, free)
  count = is_repeat and math.max(count, own.count) or count
  local next_token = false
  if rate > 0 then
    local taken = is_repeat and own.tokens > 0 and own.tokens
    if not taken then
      taken, next_token = take_tokens(key, rate, per, burst, tokens)
    end
    own.tokens = taken
  end
  own.version, own.count = version, count
  if count >= have + want then
    own.since = 0
  elseif own.since == 0 or count > have then -- who gets some waits behind all others for more
    own.since = now
  end
  uses[me] = own
  sum = sum - was + count
  local fields = { int(version), int(count), int(own.tokens), int(own.since), int(now) }
  redis.call('HSET', key, me, table.concat(fields, ' '))
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

for limit, version, have, want, tokens, slots, rate, per, burst in limits() do
  local answer = try(grant, limit, version, have, want, tokens, slots, rate, per, burst)
  for _, value in ipairs(answer or { 0, have, 0, 0, false }) do
    answers[#answers + 1] = value
  end
end
return { now, answers }
