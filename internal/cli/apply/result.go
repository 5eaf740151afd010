package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/task"
)

// outcome is what became of an entry of a file, or of what was pruned.
type outcome string

const (
	outcomeCreated   outcome = "created"
	outcomeChanged   outcome = "changed"
	outcomeUnchanged outcome = "unchanged"
	outcomePruned    outcome = "pruned"
	outcomeRefused   outcome = "refused"
)

var outcomeColours = map[outcome]string{
	outcomeCreated: printer.Green, outcomeChanged: printer.Yellow, outcomeUnchanged: printer.Grey,
	outcomePruned: printer.Red, outcomeRefused: printer.Red,
}

// result is what became of a limit, workflow, schedule or task; in a dry run, what would become of it.
type result struct {
	Kind      string        `json:"kind"`
	Namespace string        `json:"namespace"` // "" of a limit
	ID        string        `json:"id"`
	Outcome   outcome       `json:"outcome"`
	Revision  int           `json:"revision,omitempty"` // of a workflow or schedule
	Changes   []fieldChange `json:"changes,omitempty"`  // of a dry run
	Error     *wire.Problem `json:"error,omitempty"`
	Warnings  []string      `json:"warnings,omitempty"` // why its tasks may not run

	tasks []string // the ids that the line on a terminal stands for, where ID is not the only one
}

// fieldChange is a field of a definition that changes. "" stands for a field that is left out.
type fieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// add adds a result, and prints it at once if the format is the table.
func (a *applier) add(r result) error {
	if a.checking && r.Outcome != outcomeRefused {
		return nil
	}
	a.results = append(a.results, r)
	if !a.printer.IsTable() {
		return nil
	}
	return a.print(r)
}

// addTasks adds the results of an entry's tasks. A terminal gets one line for all that have the same outcome.
func (a *applier) addTasks(results []result) error {
	if a.checking {
		results = slices.DeleteFunc(results, func(r result) bool { return r.Outcome != outcomeRefused })
	}
	a.results = append(a.results, results...)
	if !a.printer.IsTable() {
		return nil
	}
	if a.printer.OutIsTerminal {
		results = joinAlike(results)
	}
	for _, r := range results {
		if err := a.print(r); err != nil {
			return err
		}
	}
	return nil
}

// joinAlike joins neighbours with the same outcome.
func joinAlike(results []result) []result {
	var joined []result
	for _, r := range results {
		last := len(joined) - 1
		if last >= 0 && joined[last].Outcome == r.Outcome && slices.Equal(joined[last].Changes, r.Changes) {
			joined[last].Kind = "tasks"
			joined[last].tasks = append(joined[last].tasks, r.ID)
			continue
		}
		r.tasks = []string{r.ID}
		joined = append(joined, r)
	}
	return joined
}

// showDocument prints all results as one document. In the format table they have been printed one by one.
func (a *applier) showDocument() error {
	if a.printer.IsTable() {
		return nil
	}
	raw, err := wire.Encode(struct {
		DryRun  bool            `json:"dry_run"`
		Results []result        `json:"results"`
		Faults  manifest.Faults `json:"faults,omitempty"`
	}{a.dryRun, append([]result{}, a.results...), a.faults})
	if err != nil {
		return err
	}
	return a.printer.Show(raw, func() error { return nil })
}

func (a *applier) print(r result) error {
	var err error
	if a.printer.OutIsTerminal {
		err = a.printer.Printf("%s %s %s\n", r.Kind, r.name(), a.outcomeText(r))
	} else {
		err = a.printer.PrintTabbed([][]any{{r.Kind, r.Namespace, r.ID, r.Outcome, r.revisionText()}})
	}
	if err != nil {
		return err
	}
	return a.printChanges(r.Changes)
}

// revisionText returns "" for a task, which has no revision.
func (r *result) revisionText() string {
	if r.Revision == 0 {
		return ""
	}
	return strconv.Itoa(r.Revision)
}

// name returns the name for people.
func (r *result) name() string {
	name := r.ID
	if r.Kind == manifest.KindLimit {
		return printer.Flat(name)
	}
	if len(r.tasks) > 1 {
		name = r.tasks[0] + " to " + r.tasks[len(r.tasks)-1]
	}
	if r.Namespace != task.DefaultNamespace {
		name = r.Namespace + "/" + name
	}
	return printer.Flat(name)
}

func (a *applier) outcomeText(r result) string {
	text := string(r.Outcome)
	switch {
	case a.checking, a.dryRun && r.Outcome == outcomeUnchanged:
	case a.dryRun:
		text = "would be " + text
	case r.Outcome == outcomeChanged && r.Revision > 0:
		text = fmt.Sprintf("changed (revision %d)", r.Revision)
	}
	return a.printer.Coloured(outcomeColours[r.Outcome], text)
}

// printChanges prints a line for each value that is removed and each that is added.
func (a *applier) printChanges(changes []fieldChange) error {
	var b strings.Builder
	for _, c := range changes {
		for _, side := range []struct{ sign, value, colour string }{{"-", c.Before, printer.Red}, {"+", c.After, printer.Green}} {
			if side.value != "" {
				line := printer.Flat(fmt.Sprintf("  %s %s: %s", side.sign, c.Field, side.value))
				b.WriteString(a.printer.Coloured(side.colour, line) + "\n")
			}
		}
	}
	return a.printer.Printf("%s", b.String())
}
