package executor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

func TestAttempt_IdempotencyKeyIsTheSameForAllAttempts(t *testing.T) {
	for number := range 3 {
		a := Attempt{Ref: task.Ref{Namespace: "acme", ID: "job-1"}, Number: number + 1}
		if got := a.IdempotencyKey(); got != "acme:job-1" {
			t.Errorf("the key of attempt %d is %q", a.Number, got)
		}
	}
}

func TestAttempt_TickIsTheNominalTimeInTheIDOfATicksTask(t *testing.T) {
	for id, want := range map[string]string{
		"job-1":                                     "",
		"nightly@20260102T150405Z":                  "2026-01-02T15:04:05.000Z",
		"nightly@20260102T150405.250Z":              "2026-01-02T15:04:05.250Z",
		"nightly@20260102T150405.250123Z-manual":    "2026-01-02T15:04:05.250Z",
		"nightly@something-that-no-schedule-writes": "",
	} {
		if got := (Attempt{Ref: task.Ref{Namespace: "acme", ID: id}}).Tick(); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// plain is an executor without a grace period or resources.
type plain struct{}

func (plain) Execute(context.Context, Attempt) (string, error) { return "", nil }

// closer is an executor with both.
type closer struct {
	plain
	grace  time.Duration
	closed *[]time.Duration
	err    error
}

func (c closer) Grace() time.Duration { return c.grace }

func (c closer) Close() error {
	*c.closed = append(*c.closed, c.grace)
	return c.err
}

func TestRegistry_ListsItsTypesInOrder(t *testing.T) {
	r := Registry{"shell": plain{}, "http": plain{}, "b": plain{}}
	if got := r.Types(); !slices.Equal(got, []string{"b", "http", "shell"}) {
		t.Errorf("types are %v", got)
	}
}

func TestRegistry_GraceIsTheLongest(t *testing.T) {
	if got := (Registry{"a": plain{}}).Grace(); got != 0 {
		t.Errorf("without any grace period it is %s", got)
	}
	r := Registry{"a": plain{}, "b": closer{grace: time.Minute}, "c": closer{grace: time.Second}}
	if got := r.Grace(); got != time.Minute {
		t.Errorf("it is %s", got)
	}
}

func TestRegistry_CloseClosesEveryExecutorWithResources(t *testing.T) {
	var closed []time.Duration
	failure := errors.New("stuck")
	r := Registry{"a": plain{}, "b": closer{grace: 1, closed: &closed, err: failure}, "c": closer{grace: 2, closed: &closed}}
	if err := r.Close(); !errors.Is(err, failure) {
		t.Errorf("error is %v", err)
	}
	if slices.Sort(closed); !slices.Equal(closed, []time.Duration{1, 2}) {
		t.Errorf("closed %v", closed)
	}
}

func TestInvalidPayloadError_IsCut(t *testing.T) {
	err := DecodePayload([]byte(`{"`+strings.Repeat("x", 100_000)+`": 1}`), nil)
	if err == nil || len(err.Error()) > task.ErrorLimit {
		t.Errorf("error has %d bytes", len(err.Error()))
	}
}
