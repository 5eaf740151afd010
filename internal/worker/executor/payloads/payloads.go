// Package payloads checks the payloads of the types that every dtsd has, for programs that submit tasks and do not run them. It links
// nothing that only an executor needs, such as gRPC.
package payloads

import (
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/asynqexec"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
	"github.com/dts-sched/dts/internal/worker/executor/httpexec"
	"github.com/dts-sched/dts/internal/worker/executor/noopexec"
	"github.com/dts-sched/dts/internal/worker/executor/shellexec"
)

// Types describes the types of package builtin.
func Types() task.Types {
	return executor.Table{
		httpexec.Describe(address.New()),
		grpccall.Describe(),
		shellexec.Describe(),
		asynqexec.Describe(),
		noopexec.Describe(),
	}.Types()
}
