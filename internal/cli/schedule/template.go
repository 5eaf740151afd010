package schedule

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
)

// templateFlags is the flags that say what task a schedule creates, in one of three ways: a command, a URL to call, or
// any type.
type templateFlags struct {
	Command   []string // not a flag: the arguments behind the dashes
	Shell     flags.ShellCommand
	URL       string
	HTTPCall  flags.HTTPCall
	Type      string
	Payload   *string
	Execution flags.Execution
	Owner     *string
	Labels    []string
}

func (t *templateFlags) bind(set *pflag.FlagSet) {
	set.StringVar(&t.URL, "http", "", "run a task of type http, which calls this URL")
	t.HTTPCall.Bind(set)
	t.Shell.Bind(set)
	set.StringVar(&t.Type, "type", "", "run a task of this type")
	flags.String(set, &t.Payload, "payload", "what the executor of --type gets: JSON, @FILE, or @- for standard input")
	t.Execution.Bind(set)
	flags.String(set, &t.Owner, "task-owner", "who is responsible for each task")
	set.StringArrayVar(&t.Labels, "task-label", nil, "a label of each task, as NAME=VALUE; may be repeated")
}

// The ways to say what runs, as errors name them.
const (
	wayCommand = "-- COMMAND"
	wayHTTP    = "--http URL"
	wayType    = "--type TYPE"
)

// wayFlags are the flags that go with each way only.
var wayFlags = map[string][]string{
	wayCommand: flags.ShellCommandNames, wayHTTP: flags.HTTPCallNames, wayType: {"payload"},
}

// ways returns the ways that the command line takes.
func (t *templateFlags) ways() []string {
	var ways []string
	for way, taken := range map[string]bool{wayCommand: len(t.Command) > 0, wayHTTP: t.URL != "", wayType: t.Type != ""} {
		if taken {
			ways = append(ways, way)
		}
	}
	slices.Sort(ways)
	return ways
}

// check refuses a command line that does not take exactly one way, or gives a flag of another one.
func (t *templateFlags) check(set *pflag.FlagSet) error {
	ways := t.ways()
	switch {
	case len(ways) == 0:
		return command.Usagef("nothing to run: give %s, %s or %s", wayCommand, wayHTTP, wayType)
	case len(ways) > 1:
		return command.Usagef("%s: give one of them", strings.Join(ways, " and "))
	}
	for way, names := range wayFlags {
		for _, name := range names {
			if way != ways[0] && set.Changed(name) {
				return command.Usagef("--%s goes with %s, not with %s", name, way, ways[0])
			}
		}
	}
	return nil
}

// template returns the task of every tick.
func (t *templateFlags) template(stdin io.Reader) (client.TaskTemplate, error) {
	taskType, payload, err := t.typeAndPayload(stdin)
	if err != nil {
		return client.TaskTemplate{}, err
	}
	labels, err := flags.Labels("--task-label", t.Labels)
	if err != nil {
		return client.TaskTemplate{}, err
	}
	return client.TaskTemplate{
		Type: taskType, Payload: payload, Queue: t.Execution.Queue, Retry: t.Execution.Retry(),
		Timeout: flags.DurationText(t.Execution.Timeout), Retention: flags.DurationText(t.Execution.Retention),
		Owner: t.Owner, Labels: labels,
	}, nil
}

func (t *templateFlags) typeAndPayload(stdin io.Reader) (string, json.RawMessage, error) {
	switch {
	case t.URL != "":
		payload, err := t.HTTPCall.Payload(stdin, t.URL)
		return "http", payload, err
	case t.Type != "":
		payload, err := flags.JSON(stdin, "--payload", t.Payload)
		return t.Type, payload, err
	}
	payload, err := t.Shell.Payload(stdin, t.Command)
	return "shell", payload, err
}
