-- policy: reads the policy of a schedule.
-- includes: nothing

-- policy_of reads the policy from a schedule's definition (JSON): overlap, max_runs (math.huge if there is no limit) and
-- pause_on_failure (nil for never). That of a definition that cannot be read is the default: ends of its tasks go on.
local function policy_of(def)
  local readable, definition = pcall(cjson.decode, def)
  definition = readable and type(definition) == 'table' and definition or {}
  return {
    overlap = definition.overlap or DEFAULT_OVERLAP,
    max_runs = definition.max_runs or math.huge,
    pause_on_failure = definition.pause_on_failure,
  }
end

