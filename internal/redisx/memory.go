package redisx

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Memory is what a server of Redis says of its memory.
type Memory struct {
	Policy string  // its maxmemory-policy; "" if it does not say
	Used   float64 // bytes
	Limit  float64 // its maxmemory, in bytes; 0: none
}

// ReadMemory asks a server, by INFO, which managed ones answer that refuse CONFIG. Error: one of Redis.
func ReadMemory(ctx context.Context, server redis.Cmdable) (Memory, error) {
	fields, err := Info(ctx, server, "memory")
	return MemoryIn(fields), err
}

// MemoryIn returns the memory of a server from the fields of INFO.
func MemoryIn(fields map[string]string) Memory {
	m := Memory{Policy: fields["maxmemory_policy"]}
	m.Used, _ = strconv.ParseFloat(fields["used_memory"], 64)
	m.Limit, _ = strconv.ParseFloat(fields["maxmemory"], 64)
	return m
}

// InUse is the share of its limit that the server uses; 0 without a limit.
func (m Memory) InUse() float64 {
	if m.Limit <= 0 {
		return 0
	}
	return m.Used / m.Limit
}

// Loses says, for people, what the server removes when it is full; "" if it keeps everything. Policies volatile-...
// take keys that expire.
func (m Memory) Loses() string {
	switch {
	case m.Policy == "" || m.Policy == "noeviction":
		return ""
	case strings.HasPrefix(m.Policy, "volatile-"):
		return "locks that are held, so that others get them too early, and leases of leaders; no tasks and no schedules"
	}
	return "tasks, schedules, locks and everything else"
}
