package embedded

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := io.WriteString(c, text); n != len(text) || err != nil {
		t.Fatalf("wrote %d bytes of %q: %v", n, text, err)
	}
}

func TestPipe_GoesBothWaysAndEndsAfterWhatWasWritten(t *testing.T) {
	t.Parallel()
	a, b := pipe()
	write(t, a, "question")
	write(t, b, "answer")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); string(got) != "question" || err != nil {
		t.Errorf("one end read %q, %v", got, err)
	}
	if got, err := io.ReadAll(a); len(got) != 0 || err != nil {
		t.Errorf("the end that was closed still read %q, %v", got, err)
	}
	for _, end := range []net.Conn{a, b} {
		if _, err := io.WriteString(end, "more"); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("writing after the end: %v", err)
		}
	}
}

func TestPipe_ReadEndsAtItsDeadlineAndNotBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe()
		defer func() { _ = a.Close() }()
		start := clock.Now()
		for i, limit := range []time.Duration{time.Minute, time.Hour, 0, -time.Hour} {
			_ = a.SetReadDeadline(clock.Now().Add(limit))
			began := clock.Now()
			_, err := a.Read(make([]byte, 1))
			var silence net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &silence) || !silence.Timeout() {
				t.Fatalf("read %d: %v, want that time is up", i, err)
			}
			if took := clock.Since(began); took != max(limit, 0) {
				t.Errorf("read %d took %s, want %s", i, took, max(limit, 0))
			}
		}
		_ = a.SetReadDeadline(time.Time{})
		time.AfterFunc(24*time.Hour, func() { write(t, b, "x") })
		if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("without a deadline: read %d bytes, %v", n, err)
		}
		if took := clock.Since(start); took != time.Minute+time.Hour+24*time.Hour {
			t.Errorf("it all took %s", took)
		}
	})
}

func TestPipe_NewDeadlineCountsForAWaitingRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := pipe()
		defer func() { _ = a.Close() }()
		start := clock.Now()
		_ = a.SetReadDeadline(start.Add(time.Hour))
		time.AfterFunc(time.Minute, func() { _ = a.SetReadDeadline(start.Add(2 * time.Minute)) })
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		if took := clock.Since(start); took != 2*time.Minute {
			t.Errorf("it took %s, want 2m", took)
		}
	})
}
