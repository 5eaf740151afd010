package control

import (
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/queue"
	"github.com/dts-sched/dts/internal/store/limits"
	"github.com/dts-sched/dts/internal/store/locks"
	"github.com/dts-sched/dts/internal/task"
)

// Codes of errors that are not of tasks (package task) nor of schedules (package schedule).
const (
	CodeLockHeld      = locks.CodeHeld
	CodeLockLost      = locks.CodeLost
	CodeLockNotFound  = locks.CodeNotFound
	CodeQueueNotFound = queue.CodeNotFound
	CodeQueueFull     = limits.CodeFull

	CodeTooManyCordons = cluster.CodeTooManyCordons

	// CodeNodeNotFound: no node of that id or name is on the list, and none of that id has lost attempts lately.
	CodeNodeNotFound task.Code = "node_not_found"

	// CodeLimitNotFound: no limit has that name.
	CodeLimitNotFound task.Code = "limit_not_found"

	// CodeTooManyNames: nobody runs the task, and too many queues and types wait.
	CodeTooManyNames task.Code = "too_many_names"
)
