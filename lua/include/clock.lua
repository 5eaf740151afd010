-- clock: now is Redis's time in ms since 1970, read once: the one clock.
-- includes: nothing
local clock_reading = redis.call('TIME')
local now = clock_reading[1] * 1000 + math.floor(clock_reading[2] / 1000)

