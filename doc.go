// Package dts runs tasks on a fleet of workers, precisely when they are due, with Redis as the only server.
//
// A [Client] submits tasks and keeps schedules. [Dial] reaches them through the REST API of a node, [Open] directly in Redis;
// both have the same methods and give the same answers.
//
//	client, err := dts.Open("redis://127.0.0.1:6379/0")
//	...
//	task, err := client.Submit(ctx, dts.Submission{
//		Type:    "email.send",
//		Payload: Email{To: "ada@example.com"},
//		Delay:   5 * time.Minute,
//	})
//
// A [Worker] runs the tasks of the types that it handles. It is a node of the fleet, like those of dtsd:
//
//	worker := dts.NewWorker(dts.WorkerOptions{Redis: "redis://127.0.0.1:6379/0"})
//	dts.Handle(worker, "email.send", func(ctx context.Context, e Email) error {
//		return send(ctx, e)
//	})
//	err := worker.Run(ctx)
//
// Somebody has to lead the partitions of the data: to see which tasks and schedules are due. Nodes of dtsd do, and so do workers with
// [WorkerOptions].Lead.
//
// # Workflows
//
// A [Workflow] is work in steps. Each step is a task. [Chain], [Group] and [Chord] say their order in a line;
// [Step].Needs says any other one. The leader of the run releases each step when what it needs has ended.
//
//	run, err := client.Run(ctx, dts.Workflow{Steps: dts.Chain(
//		dts.Step{ID: "load", Type: "orders.load", Payload: Load{Day: "2026-11-25"}},
//		dts.Step{ID: "report", Type: "report.make", Payload: map[string]any{"rows": dts.Output("load")}},
//	)}, nil)
//	...
//	report, err := dts.OutputOf[Report](ctx, client, run.ID, "report")
//
// # Promises
//
// A task that was accepted is in Redis, and reaches a final state whatever single process dies. Each attempt of a task is begun by
// at most one worker, and only that worker's report on it counts. A handler that dies with its process is run again, as a new
// attempt: it should be safe to repeat. [Task.IdempotencyKey] is the same for all attempts. With Retry.MaxAttempts 1, a task runs at most
// once.
//
// # Errors
//
// Methods of a Client return an [*Error] when DTS says no, or cannot be reached: its Code is for programs. Each method names the codes
// that it has reasons of its own for. Besides, all of them return CodeInvalid for a name or a value that is impossible, before anything is
// sent where the client can tell; CodeUnavailable if the server or Redis does not answer; [ErrClosed] after Close; and the error of a
// context that ends, together with its cause (context.Cause). A sequence ends after an error, and after Events and FollowLogs have been told to
// end by their context, without one.
//
// A handler says by [Permanent], [RetryAfter], [PauseKey], [Snooze], [ErrMoved] and [Cancelled] what its error means for the task.
//
// # Logging
//
// [WithLogger] and [WorkerOptions] say where this package logs. go-redis, through which it talks to Redis, writes to stderr besides when
// connections fail, with one logger for the whole process. This package leaves that to the program: see SetLogger in
// github.com/redis/go-redis/v9.
package dts
