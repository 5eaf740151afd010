package lease

import (
	"context"
	"fmt"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// Vacant reads which leases nobody holds: by place in keys, the newest fence of each of these. A lease that an older version holds may be
// among them. Error: one of Redis.
func Vacant(ctx context.Context, db *redisx.DB, keys []lua.LeaseKey) (map[int]string, error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
	}
	fences, err := db.GetEach(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("reading leases: %w", err)
	}
	for i := range names {
		names[i] += ":" + fences[i]
	}
	terms, err := db.GetEach(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("reading leases: %w", err)
	}
	vacant := make(map[int]string)
	for i, term := range terms {
		if term == "" {
			vacant[i] = fences[i]
		}
	}
	return vacant, nil
}
