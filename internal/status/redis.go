package status

import "fmt"

// redis adds what is wrong with Redis.
func (j *judge) redis() {
	r := j.Redis
	if r.Silent != "" {
		j.add(Reason{
			Code: RedisSilent, Severity: Bad, Since: r.Since, Kind: "redis", Detail: r.Silent,
			Do: "Bring Redis back. Tasks that run go on meanwhile, for --outage-tolerance.",
		})
	}
	if r.Refuses != "" {
		j.add(Reason{
			Code: RedisReadOnly, Severity: Bad, Kind: "redis",
			Detail: "Redis refuses writes, so nothing begins and nothing is accepted. It says: " + r.Refuses + ".",
			Do:     "Mend what it says.",
		})
	}
	j.memory()
	if r.Disk != "" {
		reason := Reason{
			Code: RedisDisk, Severity: Warn, Kind: "redis",
			Detail: "Redis could not write to its disk: " + r.Disk + ". A restart would lose what came after its last copy.",
			Do:     "Look at the log of Redis, and for room on its disk.",
		}
		reason.Since = j.since(reason)
		j.add(reason)
	}
}

// memory adds that Redis is full, or will be.
func (j *judge) memory() {
	r := j.Redis
	if r.MaxMemory <= 0 || r.Memory/r.MaxMemory <= FillingAbove {
		return
	}
	reason := Reason{
		Code: RedisFilling, Severity: Warn, Kind: "redis",
		Detail: fmt.Sprintf("Redis uses %.0f %% of its maxmemory. Above 90 %%, new work is refused.",
			100*r.Memory/r.MaxMemory),
		Do: "Raise maxmemory, or lower --retention-max-tasks.",
	}
	if r.Memory/r.MaxMemory > FullAbove {
		reason.Code, reason.Severity = RedisFull, Bad
		reason.Detail = fmt.Sprintf(
			"Redis uses %.0f %% of its maxmemory, so new work is refused. Above 95 %%, ticks are held back, too.",
			100*r.Memory/r.MaxMemory)
	}
	reason.Since = j.since(reason)
	j.add(reason)
}
