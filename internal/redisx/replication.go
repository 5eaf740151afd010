package redisx

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// longestLag is how many seconds a replica may be behind and count for min-replicas-to-write, before that is worth a warning.
const longestLag = 5

// Risk is what can come of the replicas that a server of Redis has, and of how it waits for them.
type Risk string

// The risks.
const (
	NoRisk               Risk = ""
	RiskUnknown          Risk = "unknown"                // the server does not say
	RiskNoReplica        Risk = "no replica"             // nobody else has what this server has
	RiskLoss             Risk = "loss"                   // a failover may lose acknowledged writes
	RiskRefusalElsewhere Risk = "refusal after failover" // a replica that takes over would refuse all writes
	RiskRefusal          Risk = "refusal"                // the server refuses all writes
)

// Replication is what a server of Redis says of its replicas.
type Replication struct {
	Replicas  int // that are connected
	Good      int // of them, those that count for ToWrite; -1: the server waits for none, as ToWrite or MaxLag is 0
	ToWrite   int // min-replicas-to-write; -1: not known
	MaxLag    int // min-replicas-max-lag, in s; 0 switches ToWrite off; -1: not known
	Clustered bool
}

// ReadReplication asks a server for its replicas. Error: one of Redis.
func ReadReplication(ctx context.Context, server redis.Cmdable) (Replication, error) {
	fields, err := Info(ctx, server, "replication")
	if err != nil {
		return Replication{}, err
	}
	parts, _ := Info(ctx, server, "cluster")
	settings := server.ConfigGet(ctx, "min-replicas-*").Val() // which may be forbidden
	return Replication{
		Replicas: number(fields["connected_slaves"]), Good: number(fields["min_slaves_good_slaves"]),
		ToWrite: number(settings["min-replicas-to-write"]), MaxLag: number(settings["min-replicas-max-lag"]),
		Clustered: parts["cluster_enabled"] == "1",
	}, nil
}

// number reads a number that is not negative; -1 for what is none.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Risk says what can come of it, and why, with the setting that is at fault.
func (r Replication) Risk() (_ Risk, why string) {
	waits := r.Good >= 0
	switch {
	case r.Replicas < 0:
		return RiskUnknown, "Redis does not say which replicas it has"
	case waits && r.Good < max(r.ToWrite, 1):
		return RiskRefusal, fmt.Sprintf("replicas: %d, of which %d follow closely: fewer than min-replicas-to-write asks for, so Redis refuses every write", r.Replicas, r.Good)
	case waits && r.Clustered:
		return RiskRefusalElsewhere, "min-replicas-to-write in a cluster: a replica that takes over has none itself, and refuses every write until the old primary is back"
	case r.Replicas == 0:
		return RiskNoReplica, "no replica"
	case r.ToWrite < 0 || r.MaxLag < 0:
		return RiskUnknown, fmt.Sprintf("replicas: %d; Redis does not say whether it waits for them", r.Replicas)
	case r.Clustered:
		return RiskLoss, "a failover of a cluster may lose the newest acknowledged writes"
	case r.ToWrite == 0:
		return RiskLoss, "min-replicas-to-write 0: a failover may lose acknowledged writes"
	case r.MaxLag == 0:
		return RiskLoss, fmt.Sprintf("%s, which switches it off: a failover may lose acknowledged writes", r)
	case r.MaxLag > longestLag:
		return RiskLoss, fmt.Sprintf("%s: a failover may lose the acknowledged writes of %d s", r, r.MaxLag+1)
	}
	return NoRisk, r.String()
}

func (r Replication) String() string {
	return fmt.Sprintf("replicas: %d, min-replicas-to-write %d, min-replicas-max-lag %d", r.Replicas, r.ToWrite, r.MaxLag)
}
