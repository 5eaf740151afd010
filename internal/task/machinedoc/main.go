// Command machinedoc prints docs/state-machine.md: the table of transitions in package task, as a diagram
// and as a table, with a description of each state and action. `make generate` runs it, and `make verify`
// fails when the document differs from the table.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// states describes each state in one sentence.
var states = map[task.State]string{
	task.None:      "The task does not exist: it is not created yet, or its retention is over.",
	task.Scheduled: "The task waits for its first run or its next attempt; the attempt number says which. It is on the wheel of its partition or, if it is due and its queue has no room, in the set of ready tasks of the queue.",
	task.Queued:    "The task is due. The leader of its partition has claimed it and hands the delivery to asynq, where it waits for a worker.",
	task.Running:   "A worker has begun the attempt. Only that worker can report its end, log lines or checkpoints; progress may also be reported over the API, by attempt number. A leader ends an attempt that is lost.",
	task.Succeeded: "The attempt succeeded.",
	task.Failed:    "The task failed, and no further attempt is made. It is a dead letter, and is kept longer than the other ended tasks, so that somebody can look at it.",
	task.Cancelled: "The task was cancelled before it ran, or stopped while it ran.",
}

// actions describes each action in one or two sentences.
var actions = map[task.Action]string{
	task.ActCreate:    "A client submits the task, or a schedule creates it.",
	task.ActChange:    "A client changes the due time, the queue or the payload. A queued task goes back to the wheel for the same attempt, and its delivery is deleted.",
	task.ActClaim:     "The task is due, its queue has room, and the leader of its partition takes it. The attempt number grows by one.",
	task.ActTakeBack:  "The leader takes a claimed task back, because no living worker serves its queue. The attempt number goes back by one.",
	task.ActBegin:     "A worker begins the claimed attempt. A leftover delivery of any other attempt is refused. If Redis has lost the begin, as in a failover, extending the lease of the run begins it again.",
	task.ActReport:    "The worker that began the attempt records its progress, a log line or a checkpoint, or somebody reports its progress over the API, by attempt number.",
	task.ActSucceed:   "The attempt succeeded.",
	task.ActReattempt: "The attempt failed, timed out, was lost, snoozed, interrupted or moved, and another one is allowed.",
	task.ActFail:      "The attempt failed, timed out, was lost or interrupted, and no other one is allowed.",
	task.ActCancel:    "A client or a schedule cancels the task, or nobody has begun it within its `start_by`. A running attempt is only asked to stop, and the task is running until that attempt has ended.",
	task.ActMove:      "A client asks that a running attempt moves to another worker. It goes on until its handler gives it up, or ends it otherwise.",
	task.ActStop:      "A running attempt ended because it was asked to stop.",
	task.ActRetry:     "A client runs a task in a final state again. The task gets new attempts.",
	task.ActExpire:    "The retention is over. The task is deleted with its attempts and its log.",
}

// scripts names the scripts in the folder lua that do each action. Those of a schedule do it to the tasks of its ticks.
var scripts = map[task.Action][]string{
	task.ActCreate:    {"create", "fire", "trigger_schedule", "backfill_schedule"},
	task.ActChange:    {"change"},
	task.ActClaim:     {"claim"},
	task.ActTakeBack:  {"take_back"},
	task.ActBegin:     {"begin", "extend_runs"},
	task.ActReport:    {"log", "progress", "checkpoint"},
	task.ActSucceed:   {"finish"},
	task.ActReattempt: {"finish", "reap"},
	task.ActFail:      {"finish", "reap"},
	task.ActCancel:    {"cancel", "fire", "trigger_schedule", "end_late"},
	task.ActMove:      {"move"},
	task.ActStop:      {"finish", "reap"},
	task.ActRetry:     {"retry"},
	task.ActExpire:    {"sweep"},
}

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "machinedoc:", err)
		os.Exit(1)
	}
}

// write prints the document to w. It fails if a state or an action has no description.
func write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(introduction)
	writeDiagram(&b)
	writeTable(&b)
	if err := writeStates(&b); err != nil {
		return err
	}
	if err := writeActions(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

const introduction = `<!-- Generated from the table in internal/task/state.go by "make generate". Do not edit. -->
# The states of a task

An action that this table lists for a state can happen in that state. Every other one is refused or changes nothing:
to create a task that exists with the same content, and to cancel a cancelled one, succeeds without a change.
Each action is one atomic step of a Lua script, which reads first, and then either refuses or writes.

`

// rows lists the states in the order of the document: task.None first.
func rows() []task.State { return append([]task.State{task.None}, task.States...) }

func name(s task.State) string {
	if s == task.None {
		return "(no task)"
	}
	return string(s)
}

func writeDiagram(b *strings.Builder) {
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, from := range rows() {
		for _, to := range rows() {
			if names := actionsBetween(from, to); len(names) > 0 {
				fmt.Fprintf(b, "    %s --> %s: %s\n", node(from), node(to), strings.Join(names, ", "))
			}
		}
	}
	b.WriteString("```\n\n")
}

// node returns the state's name in the mermaid diagram. "[*]" is both the start and the end.
func node(s task.State) string {
	if s == task.None {
		return "[*]"
	}
	return string(s)
}

func actionsBetween(from, to task.State) []string {
	var names []string
	for _, action := range task.Actions {
		if next, ok := task.Next(from, action); ok && next == to {
			names = append(names, string(action))
		}
	}
	return names
}

func writeTable(b *strings.Builder) {
	b.WriteString("| from |")
	for _, action := range task.Actions {
		fmt.Fprintf(b, " %s |", action)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(task.Actions)) + "\n")
	for _, from := range rows() {
		fmt.Fprintf(b, "| **%s** |", name(from))
		for _, action := range task.Actions {
			fmt.Fprintf(b, " %s |", cell(from, action))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func cell(from task.State, action task.Action) string {
	to, ok := task.Next(from, action)
	if !ok {
		return ""
	}
	return name(to)
}

func writeStates(b *strings.Builder) error {
	b.WriteString("| State | |\n|---|---|\n")
	for _, state := range rows() {
		description, ok := states[state]
		if !ok {
			return fmt.Errorf("state %q has no description: add one to internal/task/machinedoc", name(state))
		}
		fmt.Fprintf(b, "| %s | %s |\n", name(state), description)
	}
	b.WriteString("\n")
	return nil
}

func writeActions(b *strings.Builder) error {
	b.WriteString("| Action | | Script |\n|---|---|---|\n")
	for _, action := range task.Actions {
		description, ok := actions[action]
		if !ok || len(scripts[action]) == 0 {
			return fmt.Errorf("action %q has no description or no script: add it to internal/task/machinedoc", action)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", action, description, links(scripts[action]))
	}
	b.WriteString("\n")
	return nil
}

// links returns links to scripts. The tests check that the scripts exist.
func links(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf("[%s](../lua/%s.lua)", n, n))
	}
	return strings.Join(all, ", ")
}
