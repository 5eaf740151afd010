// Package workflow decides what follows in a run of a workflow: which steps are released, which verdicts the others
// get, and how the run ends. It reads no clock, calls no Redis and holds no lock.
//
//	Definition ── Compile ──▶ Flow           checked; expressions are parsed; it never changes
//	Flow ──────── NewRun ───▶ Run            what is kept of a run, as text by Encode
//	Flow, Run, Input ─ Next ▶ Plan           what follows, with the Run as it is then
//	Flow, Run, tasks ─ Audit ▶ findings      what of a run does not agree with its definition
//
// # Steps of a run
//
// A step is blocked until what it needs has come out as its [Rule] asks. Then it either gets its verdict, or its
// expressions are evaluated, and it is released: its task is created, and it is active until that task has ended. The
// verdict stays until a rerun blocks the step again.
//
//	blocked ──▶ active ──▶ succeeded, failed, cancelled
//	   └──────▶ skipped, upstream_failed, failed (by an expression), cancelled (with the run), succeeded (it decides)
//
// # Phases of a run
//
// Steps, OnFailure and Finally are sections: a step needs only others of its own. Their steps are decided one section
// after the other. OnFailure is skipped unless the run is going to fail.
//
//	main ──▶ on_failure ──▶ finally ──▶ ended ──▶ main (a rerun)
//
// # Planning
//
// The caller reads a run and the tasks of steps that may have ended, and calls [Next]. If the plan wants tasks, the
// caller reads these as well, and calls Next again with all of them. It then carries the plan out in one transaction,
// which fails if the run has changed meanwhile. Until then nothing has happened, and Next can be asked again: it is a
// function of its arguments. It evaluates at most Input.Room steps, since expressions of users cost time. The rest
// takes time in proportion to the steps and their needs.
package workflow
