// Package builtin lists the executors that every dtsd has.
package builtin

import (
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/asynqexec"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec"
	"github.com/dts-sched/dts/internal/worker/executor/httpexec"
	"github.com/dts-sched/dts/internal/worker/executor/noopexec"
	"github.com/dts-sched/dts/internal/worker/executor/shellexec"
)

// Table describes the executors, with their settings at their defaults. Each call makes a table of its own.
func Table() executor.Table {
	rules := address.New()
	return executor.Table{
		httpexec.Describe(rules),
		grpcexec.Describe(rules),
		shellexec.Describe(),
		asynqexec.Describe(),
		noopexec.Describe(),
	}
}
