package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/task"
)

// outcome is what became of a thing.
type outcome string

const (
	outcomeCreated   outcome = "created"
	outcomeChanged   outcome = "changed"
	outcomeUnchanged outcome = "unchanged"
	outcomePruned    outcome = "pruned"
	outcomeRefused   outcome = "refused"
)

// applied is what became of a schedule or task; in a dry run, what would become of it.
type applied struct {
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace"`
	ID        string          `json:"id"`
	Outcome   outcome         `json:"outcome"`
	Revision  int             `json:"revision,omitempty"` // of a schedule
	Changes   []fieldChange   `json:"changes,omitempty"`  // of a dry run
	Error     *client.Problem `json:"error,omitempty"`

	tasks []string // all that the line on a terminal stands for, where that is not ID alone
}

// fieldChange is a field of a definition that changes; "" is where it is left out.
type fieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// showApplied prints all results where they are not printed one by one.
func (s *session) showApplied(results []applied, dryRun bool) error {
	if s.isTable() {
		return nil
	}
	raw, err := rawOf(struct {
		DryRun  bool      `json:"dry_run"`
		Results []applied `json:"results"`
	}{dryRun, append([]applied{}, results...)})
	if err != nil {
		return err
	}
	return s.show(raw, func() error { return nil })
}

func (s *session) printApplied(r applied, dryRun bool) error {
	var err error
	if s.OutIsTerminal {
		err = s.printf("%s %s %s\n", r.Kind, s.nameOf(r), s.outcomeText(r, dryRun))
	} else {
		err = s.printTabbed([][]any{{r.Kind, r.Namespace, r.ID, r.Outcome, revisionText(r.Revision)}})
	}
	if err != nil {
		return err
	}
	return s.printDifference(r.Changes)
}

// revisionText is "" for what has no revision.
func revisionText(revision int) string {
	if revision == 0 {
		return ""
	}
	return strconv.Itoa(revision)
}

// nameOf is how a person names it.
func (s *session) nameOf(r applied) string {
	name := r.ID
	if len(r.tasks) > 1 {
		name = r.tasks[0] + " to " + r.tasks[len(r.tasks)-1]
	}
	if r.Namespace != task.DefaultNamespace {
		name = r.Namespace + "/" + name
	}
	return flat(name)
}

var outcomeColours = map[outcome]string{
	outcomeCreated: green, outcomeChanged: yellow, outcomeUnchanged: grey, outcomePruned: red, outcomeRefused: red,
}

func (s *session) outcomeText(r applied, dryRun bool) string {
	text := string(r.Outcome)
	switch {
	case dryRun && r.Outcome == outcomeUnchanged:
	case dryRun:
		text = "would be " + text
	case r.Outcome == outcomeChanged:
		text = fmt.Sprintf("changed (revision %d)", r.Revision)
	}
	return s.tint(outcomeColours[r.Outcome], text)
}

// printDifference prints a line for each value that goes and each that comes.
func (s *session) printDifference(changes []fieldChange) error {
	var b strings.Builder
	for _, c := range changes {
		for _, side := range []struct{ sign, value, colour string }{{"-", c.Before, red}, {"+", c.After, green}} {
			if side.value != "" {
				b.WriteString(s.tint(side.colour, flat(fmt.Sprintf("  %s %s: %s", side.sign, c.Field, side.value))) + "\n")
			}
		}
	}
	return s.printf("%s", b.String())
}

// tint colours a text, where there are colours.
func (s *session) tint(colour, text string) string {
	if !s.colourful() {
		return text
	}
	return colour + text + reset
}

// printTasks prints what became of an entry's tasks: on a terminal one line for all that fared alike.
func (a *applying) printTasks(all []applied) error {
	a.results = append(a.results, all...)
	if !a.session.isTable() {
		return nil
	}
	if a.session.OutIsTerminal {
		all = alike(all)
	}
	for _, r := range all {
		if err := a.session.printApplied(r, a.dryRun); err != nil {
			return err
		}
	}
	return nil
}

// alike joins neighbours with the same outcome.
func alike(all []applied) []applied {
	var joined []applied
	for _, r := range all {
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
