package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
)

const (
	pings       = 11
	slowPing    = 20 * time.Millisecond // the median
	slowestPing = 200 * time.Millisecond
	clockSlack  = time.Second // beyond what the measurement itself may be wrong by
	packedLimit = 1024        // entries of a hash or a sorted set that is a list
	memorySlack = 0.8         // of the limit, from which the memory is worth a note
)

// oldest is the oldest version of Redis that does. Before it, scripts, by which DTS writes, ignore min-replicas-to-write.
var oldest = []int{6, 2, 7}

// judge looks at one server of Redis. Error: one of Redis; a refusal means that it is not allowed to know.
type judge func(ctx context.Context, server redis.Cmdable) (Severity, string, error)

// judges are the checks of a server of Redis, by name.
var judges = map[string]judge{
	reachable: judgeReachable, "redis-version": judgeVersion, "eviction": judgeEviction, "persistence": judgePersistence, "replication": judgeReplication,
	"password": judgePassword, "memory": judgeMemory, "latency": judgeLatency, "clock": judgeClock,
	"listpacks": judgeListpacks,
}

// ofSettings are the checks of settings that an embedded Redis does not have. Unless somebody asks for one of them,
// the report leaves them out.
var ofSettings = []string{"eviction", "persistence", "replication", "password", "memory", "listpacks"}

// judgeEmbedded stands for these checks, and that of the version, if Redis is embedded.
func judgeEmbedded(context.Context, redis.Cmdable) (Severity, string, error) {
	return OK, "an embedded Redis, which keeps its data in memory only: it has no version and no settings to check", nil
}

// setting reads a setting of Redis, "" if there is none of that name.
func setting(ctx context.Context, server redis.Cmdable, name string) (string, error) {
	values, err := server.ConfigGet(ctx, name).Result()
	return values[name], err
}

// isRefusal reports whether an error is an answer of Redis, as where a managed one, or ACLs, forbid a command.
func isRefusal(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused)
}

func judgeVersion(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	values, err := redisx.Info(ctx, server, "server")
	version := values["redis_version"]
	if err != nil || version == "" {
		return Unknown, "Redis does not say which version it is", err
	}
	var parts []int
	for part := range strings.SplitSeq(version, ".") {
		number, _ := strconv.Atoi(part)
		parts = append(parts, number)
	}
	if slices.Compare(parts, oldest) < 0 {
		return Error, version, nil
	}
	return OK, version, nil
}

func judgeEviction(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	m, err := redisx.ReadMemory(ctx, server)
	switch {
	case err != nil || m.Policy == "":
		return Unknown, "Redis does not say what it does when it is full", err
	case m.Loses() == "":
		return OK, m.Policy, nil
	case m.Limit == 0:
		return Warning, m.Policy + ", without a limit of the memory", nil
	}
	return Error, m.Policy + ": it loses " + m.Loses(), nil
}

func judgePersistence(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	values, err := redisx.Info(ctx, server, "persistence")
	if err != nil || values["aof_enabled"] == "" {
		return Unknown, "Redis does not say whether it writes to its disk", err
	}
	for _, last := range []string{"aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
		if status := values[last]; status != "" && status != "ok" {
			return Error, last + " is " + status, nil
		}
	}
	if values["aof_enabled"] == "1" {
		every, err := setting(ctx, server, "appendfsync")
		switch {
		case isRefusal(err): // how often it is written is not essential
			return OK, "append-only file", nil
		case err != nil:
			return Unknown, "", err
		}
		return OK, "append-only file, appendfsync " + every, nil
	}
	save, err := setting(ctx, server, "save")
	switch {
	case isRefusal(err) || save != "": // whether there are any is not known
		return Warning, "snapshots only: a crash loses what came after the last one", nil
	case err != nil:
		return Unknown, "", err
	}
	return Error, "nothing is written to disk: a crash or a restart loses everything", nil
}

func judgeReplication(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	r, err := redisx.ReadReplication(ctx, server)
	if err != nil {
		return OK, "", err
	}
	risk, why := r.Risk()
	switch {
	case risk == redisx.NoRisk:
		return OK, why, nil
	case risk == redisx.RiskUnknown:
		return Unknown, why, nil
	case risk == redisx.RiskRefusal:
		return Error, why, nil
	case risk == redisx.RiskRefusalElsewhere, risk == redisx.RiskLoss && !r.Clustered: // in a cluster, no setting of Redis prevents a loss
		return Warning, why, nil
	}
	return Note, why, nil
}

// judgePassword looks whether Redis takes commands without a password. It asks as a stranger would, as the user of
// DTS need not know of other users.
func judgePassword(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	client, ok := server.(*redis.Client)
	if !ok {
		return Unknown, "Redis cannot be asked without a password", nil
	}
	takes, err := redisx.TakesStrangers(ctx, client)
	switch {
	case errors.Is(err, redisx.ErrCertificate):
		return Unknown, err.Error(), nil
	case takes:
		return Warning, "it takes commands without a password", err
	}
	return OK, "it takes no commands without a password", err
}

func judgeMemory(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	values, err := redisx.Info(ctx, server, "memory")
	used, errUsed := strconv.ParseFloat(values["used_memory"], 64)
	limit, _ := strconv.ParseFloat(values["maxmemory"], 64)
	if err != nil || errUsed != nil {
		return Unknown, "Redis does not say how much memory it uses", err
	}
	of := "maxmemory"
	if limit == 0 {
		limit, _ = strconv.ParseFloat(values["total_system_memory"], 64)
		of = "its machine's memory, and maxmemory is not set"
	}
	if limit == 0 {
		return Note, "maxmemory is not set", nil
	}
	share := used / limit
	detail := fmt.Sprintf("%.1f MB, %.0f %% of %s", used/1e6, share*100, of)
	switch {
	case share > layout.AlmostFull:
		return Error, detail, nil
	case share > layout.NearlyFull:
		return Warning, detail, nil
	case share > memorySlack || of != "maxmemory":
		return Note, detail, nil
	}
	return OK, detail, nil
}

func judgeLatency(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	took := make([]time.Duration, pings)
	for i := range took {
		start := clock.Now()
		if err := server.Ping(ctx).Err(); err != nil {
			return OK, "", err
		}
		took[i] = clock.Since(start)
	}
	slices.Sort(took)
	median, worst := took[pings/2], took[pings-1]
	detail := fmt.Sprintf("%d pings: median %s, longest %s", pings, median.Round(10*time.Microsecond), worst.Round(10*time.Microsecond))
	if median > slowPing || worst > slowestPing {
		return Warning, detail, nil
	}
	return OK, detail, nil
}

// judgeClock compares the clocks of a server and of this node. The server read its clock at some time between the question and the
// answer, so the difference is known to half of the time between them.
func judgeClock(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	var off, bound time.Duration
	for i := range pings {
		asked := clock.Now()
		at, err := server.Time(ctx).Result()
		if err != nil {
			return OK, "", err
		}
		if half := clock.Since(asked) / 2; i == 0 || half < bound {
			off, bound = at.Sub(asked.Add(half)), half
		}
	}
	detail := describeClocks(off, bound)
	if off.Abs() > clockSlack+bound {
		return Warning, detail, nil
	}
	return OK, detail, nil
}

// describeClocks says by how much the clock of Redis is off, which is known to bound.
func describeClocks(off, bound time.Duration) string {
	which := "ahead of"
	switch by := off.Round(time.Millisecond); {
	case by.Abs() <= bound.Round(time.Millisecond):
		return fmt.Sprintf("the clocks of Redis and of this node agree, give or take %s", max(bound, time.Millisecond).Round(time.Millisecond))
	case by < 0:
		which = "behind"
	}
	return fmt.Sprintf("the clock of Redis is %s %s this node's, give or take %s", off.Abs().Round(time.Millisecond), which, bound.Round(time.Millisecond))
}

func judgeListpacks(ctx context.Context, server redis.Cmdable) (Severity, string, error) {
	var parts []string
	severity := OK
	for _, name := range []string{"hash-max-listpack-entries", "hash-max-listpack-value", "zset-max-listpack-entries"} {
		value, err := setting(ctx, server, name)
		if err == nil && value == "" {
			value, err = setting(ctx, server, strings.Replace(name, "listpack", "ziplist", 1)) // before Redis 7
		}
		if err != nil {
			return OK, "", err
		}
		if n, _ := strconv.Atoi(value); n > packedLimit && strings.HasSuffix(name, "entries") {
			severity = Warning
		}
		parts = append(parts, name+" "+value)
	}
	return severity, strings.Join(parts, ", "), nil
}
