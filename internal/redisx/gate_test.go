package redisx

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/testkit"
)

// unread is a command whose error nobody may read: the client of a cluster may be sending it to another server.
type unread struct {
	redis.Cmder
	t *testing.T
}

func (u unread) Err() error {
	u.t.Error("the error of a command that may be on its way to another server is read")
	return nil
}

func TestGate_ReadsNoErrorsOfCommandsThatAClusterMayBeSendingAgain(t *testing.T) {
	t.Parallel()
	g := gate{succession: NewSuccession(0), address: "127.0.0.1:1"}
	sent := 0
	send := g.ProcessPipelineHook(func(_ context.Context, cmds []redis.Cmder) error {
		sent += len(cmds)
		return nil
	})
	testkit.Must(t, send(t.Context(), []redis.Cmder{unread{redis.NewStatusCmd(t.Context(), "ping"), t}}))
	if sent != 1 {
		t.Errorf("%d commands are sent, want 1", sent)
	}
}
