package main

import (
	"context"
	"io"
	"testing"
	"time"
)

// As after SIGTERM, which ends the context.
func TestServe_StopsWithoutAnErrorWhileItWaitsForRedis(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	cmd := newRootCommand()
	cmd.SetArgs([]string{"serve", "--redis", "redis://127.0.0.1:1/0", "--listen", "127.0.0.1:0"})
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Error(err)
	}
}
