package control

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

func TestChore_BeginsAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		c := &Control{log: slog.New(slog.NewTextHandler(&said, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		begun := 0
		c.going(ctx, "counting", func() {
			if begun++; begun < 3 {
				panic("no such minute")
			}
			cancel()
		})()
		if begun != 3 || strings.Count(said.String(), "no such minute") < 2 {
			t.Errorf("it began %d times, and the log says %s", begun, said.String())
		}
	})
}
