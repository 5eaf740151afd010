// Command machinedoc prints docs/state-machine.md: the table of transitions in package task, as a diagram
// and as a table, with a sentence for each state and trigger. `make generate` runs it, and `make verify`
// fails when the document differs from the table.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

var states = map[task.State]string{
	task.None:      "There is no such task: it is not created yet, or its retention is over.",
	task.Scheduled: "It waits on its partition's wheel for its first run or for a retry; the attempt number says which.",
	task.Queued:    "It is due: its partition's leader has claimed it and hands the delivery to asynq, where it waits for a worker.",
	task.Running:   "A worker has begun the attempt, and only that worker can report on it.",
	task.Succeeded: "The attempt ended well.",
	task.Failed:    "The attempts are used up: a dead letter, kept longer than the others so that somebody can look at it.",
	task.Cancelled: "Somebody did not want it to run, or stopped it.",
}

var triggers = map[task.Trigger]string{
	task.Create:   "Somebody submits the task.",
	task.Update:   "Somebody changes its time, queue or payload; that is possible only while it waits on the wheel.",
	task.Claim:    "It is due, and its partition's leader takes it off the wheel; the attempt number grows by one.",
	task.Begin:    "A worker starts the attempt that was claimed. A leftover delivery of any other attempt is refused.",
	task.Report:   "The worker that began the attempt tells its progress or writes a log line.",
	task.Succeed:  "The attempt ended well.",
	task.TryAgain: "The attempt failed, ran out of time or was lost with its worker, and another one is allowed.",
	task.Fail:     "The attempt failed, ran out of time or was lost with its worker, and it was the last one allowed.",
	task.Cancel:   "Somebody wants it not to run. A running attempt is only told so and goes on until it stops.",
	task.Stop:     "A running attempt has ended because it was told to.",
	task.Rerun:    "Somebody runs a task again that has ended; it gets new attempts.",
	task.Expire:   "Its retention is over: the task is deleted with its attempts and its log.",
}

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "machinedoc:", err)
		os.Exit(1)
	}
}

// write prints the document. It refuses to if a state or a trigger has no sentence.
func write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(introduction)
	writeDiagram(&b)
	writeTable(&b)
	if err := writeSentences(&b, "State", rows(), states, name); err != nil {
		return err
	}
	if err := writeSentences(&b, "Trigger", task.Triggers, triggers, func(t task.Trigger) string { return string(t) }); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

const introduction = `<!-- Generated from the table in internal/task/state.go by "make generate". Do not edit. -->
# The states of a task

What is in this table can happen. What is not is refused and changes nothing. Each trigger is done by one Lua
script, which looks, refuses or writes in one atomic step.

`

// rows are the states as the document lists them: no task at all first.
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
			if between := triggersBetween(from, to); len(between) > 0 {
				fmt.Fprintf(b, "    %s --> %s: %s\n", node(from), node(to), strings.Join(between, ", "))
			}
		}
	}
	b.WriteString("```\n\n")
}

// node is a state as mermaid names it; [*] is both the start and the end.
func node(s task.State) string {
	if s == task.None {
		return "[*]"
	}
	return string(s)
}

func triggersBetween(from, to task.State) []string {
	var between []string
	for _, t := range task.Triggers {
		if next, ok := task.Next(from, t); ok && next == to {
			between = append(between, string(t))
		}
	}
	return between
}

func writeTable(b *strings.Builder) {
	b.WriteString("| from |")
	for _, t := range task.Triggers {
		fmt.Fprintf(b, " %s |", t)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(task.Triggers)) + "\n")
	for _, from := range rows() {
		fmt.Fprintf(b, "| **%s** |", name(from))
		for _, t := range task.Triggers {
			fmt.Fprintf(b, " %s |", cell(from, t))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func cell(from task.State, t task.Trigger) string {
	to, ok := task.Next(from, t)
	if !ok {
		return ""
	}
	return name(to)
}

func writeSentences[K comparable](b *strings.Builder, title string, keys []K, sentences map[K]string, name func(K) string) error {
	fmt.Fprintf(b, "| %s | |\n|---|---|\n", title)
	for _, k := range keys {
		sentence, ok := sentences[k]
		if !ok {
			return fmt.Errorf("%s %q has no sentence: add one to internal/task/machinedoc", strings.ToLower(title), name(k))
		}
		fmt.Fprintf(b, "| %s | %s |\n", name(k), sentence)
	}
	b.WriteString("\n")
	return nil
}
