package lease_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
)

// holderRedis names the variable that turns this test binary into a process which holds a lease.
const holderRedis = "DTS_TEST_HOLDER_REDIS"

func TestHeld_OfAProcessStoppedForTooLongIsRefused(t *testing.T) {
	testkit.NotQuick(t)
	t.Parallel()
	srv := redistest.Start(t)
	db := srv.DB(t)
	process, said := startHolder(t, srv.URL())
	if line := <-said; line != "held 1:holder" {
		t.Fatalf("the holder said %q", line)
	}
	signal(t, process, syscall.SIGSTOP)
	testkit.Eventually(t, "its lease expired", func() bool { return holder(t, db) == "" })
	next := acquire(t, leaseFor(db, "next", long))
	before := redistest.Dump(t, db)

	signal(t, process, syscall.SIGCONT)

	var last []string
	for line := range said {
		last = append(last, line)
	}
	text := strings.Join(last, "\n")
	if !strings.Contains(text, "renew_lease refused: LOST "+string(next.Fence())) || !strings.Contains(text, "context ended") {
		t.Errorf("it did not try to renew, or its context did not end:\n%s", text)
	}
	same(t, before, redistest.Dump(t, db))
}

func startHolder(t *testing.T, url string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderRedis+"="+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, lines := make(chan string, 100), bufio.NewScanner(out)
	go func() {
		defer close(said)
		for lines.Scan() {
			said <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended, as it should
		_ = cmd.Wait()
	})
	return cmd, said
}

func signal(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// holdUntilLost is what the other process does.
func holdUntilLost() {
	ctx := context.Background()
	db, err := redisx.Open(ctx, redisx.Options{URL: os.Getenv(holderRedis)})
	if err != nil {
		panic(err)
	}
	held, err := lease.New(lease.Options{
		DB: db, Key: key, Owner: "holder", TTL: 2 * short,
		Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	}).Acquire(ctx)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "held", held.Fence())
	<-held.Context().Done()
	if err := held.Release(ctx); err != nil { // waits until renewal has ended
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, "context ended:", context.Cause(held.Context()))
}
