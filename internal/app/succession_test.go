package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/store/tasks"
)

// reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

var _ redis.Error = reply("")

func TestIsUntold_IfThePrimaryDidNotAnswerOrIsNotReady(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{fmt.Errorf("script finish: %w", io.EOF), true},
		{fmt.Errorf("script finish: %w", reply("LOADING Redis is loading the dataset in memory")), true},
		{errors.Join(tasks.ErrBehind, reply("NOREPLICAS Not enough good replicas to write.")), true},
		{errors.Join(reply("OOM command not allowed"), reply("LOADING Redis is loading the dataset in memory")), true},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), false},
		{tasks.ErrBehind, false},
	} {
		if got := isUntold(test.err); got != test.want {
			t.Errorf("%v: %t, want %t", test.err, got, test.want)
		}
	}
}

func TestWaitingHelps_UnlessRedisHasAnsweredForGood(t *testing.T) {
	for _, test := range []struct {
		err  error
		up   bool
		want bool
	}{
		{errors.New("all sentinels are unreachable"), false, true},
		{fmt.Errorf("reading dts:meta: %w", context.DeadlineExceeded), true, true}, // it has answered others meanwhile
		{reply("LOADING Redis is loading the dataset in memory"), true, true},
		{errors.New("partitions: this Redis was started with 4"), true, false},
	} {
		if got := waitingHelps(test.err, test.up); got != test.want {
			t.Errorf("%v, Redis answers: %t: %t, want %t", test.err, test.up, got, test.want)
		}
	}
}
