package status

import (
	"fmt"

	"github.com/dts-sched/dts/internal/config"
)

// redis adds what is wrong with Redis.
func (j *judge) redis() {
	r := j.Redis
	if r.Silent != "" {
		reason := Reason{
			Code: RedisSilent, Severity: Bad, Since: r.Since, Kind: "redis", Detail: r.Silent,
			Do: "Bring Redis back. " + config.RunsGoOn,
		}
		if r.Refuses {
			reason.Do = "Remove the cause that Redis names. " + config.RunsGoOn
		}
		j.add(reason)
	}
	if r.Denied != "" {
		reason := Reason{Code: RedisSilent, Severity: Bad, Kind: "redis"}
		reason.Since = j.since(reason)
		reason.Detail = fmt.Sprintf("Some of what nodes do fails at Redis: %s.", r.Denied)
		reason.Do = "Give the user of Redis that right. The commands that DTS needs are in docs/operations.md."
		j.add(reason)
	}
	for _, s := range r.Away {
		said := "does not answer"
		if s.Said != "" {
			said = "turns nodes away: " + s.Said
		}
		j.add(Reason{
			Code: RedisSilent, Severity: Bad, Since: s.Since, Kind: "redis", ID: s.Address,
			Detail: fmt.Sprintf("%s %s.%s", s.name(), said, s.unknown()),
			Do:     "Bring the server back. " + config.RunsGoOn,
		})
	}
	for _, s := range r.Refusing {
		reason := Reason{Code: RedisReadOnly, Severity: Bad, Kind: "redis", ID: s.Address}
		reason.Since = j.since(reason)
		reason.Detail = fmt.Sprintf("%s refuses writes, so nothing begins there and nothing is accepted. It says: %s.",
			s.name(), s.Said)
		reason.Do = "Remove the cause that Redis names."
		j.add(reason)
	}
	j.memory()
	if r.Disk != "" {
		reason := Reason{
			Code: RedisDisk, Severity: Warn, Kind: "redis",
			Detail: "Redis could not write to its disk: " + r.Disk + ". A restart would lose what came after its last copy.",
			Do:     "Look at the log of Redis, and at the free space of its disk.",
		}
		reason.Since = j.since(reason)
		j.add(reason)
	}
}

// name is a server at the beginning of a sentence.
func (s Server) name() string {
	if s.Address == "" {
		return "Redis"
	}
	return "The server " + s.Address + " of Redis"
}

// unknown says of which partitions nothing is known while a server is away; "" if it has none.
func (s Server) unknown() string {
	switch len(s.Partitions) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" What else needs somebody in its partition %d is not known.", s.Partitions[0])
	}
	return fmt.Sprintf(" What else needs somebody in its partitions %s is not known.", list(s.Partitions))
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
