// Package tracing makes the spans of tasks, for OpenTelemetry. Who has no Tracer makes none, and pays for none.
//
//	submit    control     child of the request's traceparent, or of the span in the caller's context
//	  |                   its own traceparent is kept with the task (task.Definition.Trace)
//	  +- hand-over        scheduler, for each attempt: from the due time until the delivery is in its queue
//	  +- attempt          worker, for each attempt: until its end is recorded
//	       +- ...         what the handler, or the service that it calls, makes of the attempt's traceparent
//
// Only sampled traces are kept, so that a task without one has no spans. The tasks of a schedule have no submission:
// each of their attempts begins a trace.
//
// A worker by HTTP begins an attempt with one call and ends it with another one, perhaps at another node. Its span is
// made at the end. The worker has its traceparent before: the ids follow from the token of the run (Lend, Return).
package tracing
