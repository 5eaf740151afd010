-- policy: reads the policy of a schedule.
-- includes: nothing

-- policy_of reads the policy from a schedule's definition (JSON): overlap, max_runs (math.huge if there is no limit) and
-- pause_on_failure (nil for never).
local function policy_of(def)
  local definition = cjson.decode(def)
  return {
    overlap = definition.overlap or DEFAULT_OVERLAP,
    max_runs = definition.max_runs or math.huge,
    pause_on_failure = definition.pause_on_failure,
  }
end

