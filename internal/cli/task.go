package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

func newTaskCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "task", Short: "Submit tasks, and follow, change, cancel or repeat them",
		Long: `A task is one unit of work: what to run, when, and how often to try. Its id is unique in its namespace.`,
		Example: `  dtsctl task http https://example.com/hook
  dtsctl task list --state failed,cancelled
  dtsctl task logs -f backup`,
	}
	cmd.AddCommand(
		newSubmitCommand(s), newHTTPCommand(s), newShellCommand(s),
		newGetCommand(s), newListCommand(s), newWaitCommand(s), newAttemptsCommand(s), newLogsCommand(s),
		newCancelCommand(s), newRetryCommand(s), newUpdateCommand(s),
	)
	return beGroup(cmd)
}

// taskColumns is a task in a list.
var taskColumns = []column[client.Task]{
	{"id", func(t client.Task) any { return t.ID }},
	{"state", func(t client.Task) any { return status(t.State) }},
	{"type", func(t client.Task) any { return t.Type }},
	{"queue", func(t client.Task) any { return t.Queue }},
	{"attempt", func(t client.Task) any { return t.Attempt }},
	{"due", func(t client.Task) any { return t.RunAt }},
	{"finished", func(t client.Task) any { return t.FinishedAt }},
	{"node", func(t client.Task) any { return orNothing(t.Node) }},
	{"error", func(t client.Task) any { return remark(orNothing(t.Error)) }},
}

// detailsOf is all about a task.
func detailsOf(t client.Task) []detail {
	details := []detail{
		{"id", t.ID}, {"namespace", t.Namespace}, {"schedule", t.Schedule}, {"tick", nominalOf(t.Tick)}, {"type", t.Type}, {"queue", t.Queue},
		{"state", status(t.State)}, {"attempt", t.Attempt}, {"max_attempts", t.MaxAttempts}, {"progress", t.Progress},
		{"run_at", t.RunAt}, {"created_at", t.CreatedAt}, {"queued_at", t.QueuedAt}, {"started_at", t.StartedAt},
		{"finished_at", t.FinishedAt}, {"cancel_requested_at", t.CancelRequestedAt},
		{"node", t.Node}, {"error", t.Error}, {"result", t.Result}, {"payload", string(t.Payload)},
		{"timeout", t.Timeout}, {"retry", retryText(t.Retry)}, {"retention", t.Retention}, {"owner", t.Owner},
	}
	if t.Labels != nil {
		details = append(details, detail{"labels", labelsText(*t.Labels)})
	}
	return details
}

func retryText(r client.Retry) string {
	raw, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	return string(raw)
}

func labelsText(labels client.Labels) listing {
	var texts listing
	for name, value := range labels {
		texts = append(texts, name+"="+value)
	}
	slices.Sort(texts)
	return texts
}

func isEnd(state client.State) bool {
	switch state {
	case client.StateSucceeded, client.StateFailed, client.StateCancelled:
		return true
	}
	return false
}

// took is how long the newest attempt ran.
func took(t client.Task) time.Duration {
	if t.StartedAt == nil || t.FinishedAt == nil {
		return 0
	}
	return max(0, t.FinishedAt.Sub(*t.StartedAt))
}

// stateNames are the states as flags and completions name them.
var stateNames = []string{"scheduled", "queued", "running", "succeeded", "failed", "cancelled"}

// statesOf reads the values of --state. Which words are states, the server knows.
func statesOf(names []string) client.States {
	var states client.States
	for _, name := range names {
		states = append(states, client.State(strings.TrimSpace(name)))
	}
	return states
}

// filters are the flags that choose tasks and events.
type filters struct {
	states                  []string
	queue, typ, owner, node string
	schedule                string
}

func (f *filters) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.states, "state", nil, "only in this state; may be repeated, or be several separated by commas")
	flags.StringVar(&f.queue, "queue", "", "only of this queue")
	flags.StringVar(&f.typ, "type", "", "only of this type")
	flags.StringVar(&f.owner, "owner", "", "only of this owner")
	flags.StringVar(&f.node, "node", "", "only if this node began the newest attempt")
	flags.StringVar(&f.schedule, "schedule", "", "only if this schedule created it")
	complete(cmd, "state", stateNames...)
}

// orNil is nil for what was left out.
func orNil[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// summaryOf says in a few words what became of a task.
func (s *session) summaryOf(t client.Task) string {
	words := []string{t.ID, s.coloured(status(t.State), string(t.State))}
	switch {
	case t.State == client.StateScheduled:
		words = append(words, "due", s.text(t.RunAt))
	case t.State == client.StateRunning && t.CancelRequestedAt != nil:
		words = append(words, "asked to stop")
	case took(t) > 0:
		words = append(words, "after", s.text(took(t)))
	}
	if reason := orNothing(t.Error); reason != "" && t.State != client.StateSucceeded {
		words = append(words, "("+flat(reason)+")")
	}
	return strings.Join(words, " ")
}

// showTask prints what became of a task: a sentence on a terminal, else its id and state.
func (s *session) showTask(a answer[client.Task]) error {
	return s.show(a.raw, func() error {
		if s.OutIsTerminal {
			return s.printf("%s\n", s.summaryOf(a.value))
		}
		return s.printTabbed([][]any{{a.value.ID, a.value.State}})
	})
}
