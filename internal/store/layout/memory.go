package layout

import (
	"context"
	"strconv"
	"strings"
)

// Memory reads how many bytes Redis uses and how many it may use; limit 0 means no limit. Error: CodeUnavailable.
func (l *Layout) Memory(ctx context.Context) (used, limit int64, _ error) {
	info, err := l.DB.Info(ctx, "memory").Result()
	if err != nil {
		return 0, 0, Unavailable(err)
	}
	for line := range strings.SplitSeq(info, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_memory":
			used, _ = strconv.ParseInt(value, 10, 64)
		case "maxmemory":
			limit, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return used, limit, nil
}
