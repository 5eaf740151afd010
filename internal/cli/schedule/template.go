package schedule

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
)

// templateFlags is the flags that say what task a schedule creates, in one of four ways: a command, a URL to call, a
// gRPC server to call, or any type.
type templateFlags struct {
	Command   []string // not a flag: the arguments behind the dashes
	Shell     flags.ShellCommand
	URL       string
	HTTPCall  flags.HTTPCall
	Target    string
	GRPCCall  flags.GRPCCall // what is not in HTTPCall
	Type      string
	Payload   *string
	Execution flags.Execution
	Owner     *string
	Labels    []string
}

func (t *templateFlags) bind(set *pflag.FlagSet) {
	set.StringVar(&t.URL, "http", "", "run a task of type http, which calls this URL")
	t.HTTPCall.Bind(set)
	set.StringVar(&t.Target, "grpc", "", "run a task of type grpc, which calls --method of the server at this HOST:PORT")
	t.GRPCCall.BindBesideHTTP(set, "")
	set.Lookup("method").Usage = "the method of the call (with --http, default POST; with --grpc, package.Service/Method)"
	set.Lookup("data").Usage = "the body of the call, or with --grpc the request, as JSON: a text, @FILE, or @- for standard input"
	set.Lookup("retry-codes").Usage = "which 4xx statuses, or with --grpc which status codes, are tried again though they are final"
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
	wayGRPC    = "--grpc TARGET"
	wayType    = "--type TYPE"
)

// wayFlags are the flags that go with some ways only.
var wayFlags = map[string][]string{
	wayCommand: flags.ShellCommandNames, wayHTTP: flags.HTTPCallNames, wayGRPC: flags.GRPCCallNames, wayType: {"payload"},
}

// waysWith returns the ways that a flag goes with, nil for one that goes with all.
func waysWith(name string) (ways []string) {
	for way, names := range wayFlags {
		if slices.Contains(names, name) {
			ways = append(ways, way)
		}
	}
	slices.Sort(ways)
	return ways
}

// ways returns the ways that the command line takes.
func (t *templateFlags) ways() []string {
	var ways []string
	for way, taken := range map[string]bool{
		wayCommand: len(t.Command) > 0, wayHTTP: t.URL != "", wayGRPC: t.Target != "", wayType: t.Type != "",
	} {
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
		return command.Usagef("nothing to run: give %s, %s, %s or %s", wayCommand, wayHTTP, wayGRPC, wayType)
	case len(ways) > 1:
		return command.Usagef("%s: give one of them", strings.Join(ways, " and "))
	}
	var wrong error
	set.Visit(func(f *pflag.Flag) {
		if with := waysWith(f.Name); wrong == nil && with != nil && !slices.Contains(with, ways[0]) {
			wrong = command.Usagef("--%s goes with %s, not with %s", f.Name, strings.Join(with, " or "), ways[0])
		}
	})
	if wrong == nil && t.Target != "" && t.HTTPCall.Method == "" {
		return command.Usagef("%s: --method is missing, as package.Service/Method", wayGRPC)
	}
	return wrong
}

// template returns the task of every tick.
func (t *templateFlags) template(stdin io.Reader) (wire.TaskTemplate, error) {
	taskType, payload, err := t.typeAndPayload(stdin)
	if err != nil {
		return wire.TaskTemplate{}, err
	}
	labels, err := flags.Labels("--task-label", t.Labels)
	if err != nil {
		return wire.TaskTemplate{}, err
	}
	prefer, err := t.Execution.Reach.Prefer()
	if err != nil {
		return wire.TaskTemplate{}, err
	}
	route, err := t.Execution.Reach.Route()
	if err != nil {
		return wire.TaskTemplate{}, err
	}
	return wire.TaskTemplate{
		Type: taskType, Payload: payload, Queue: t.Execution.Queue, Retry: t.Execution.Retry(),
		Timeout: flags.DurationText(t.Execution.Timeout), Retention: flags.DurationText(t.Execution.Retention),
		StartBy: flags.DurationText(t.Execution.StartBy), Owner: t.Owner, Labels: labels,
		Priority: t.Execution.Precedence.Priority, FairKey: t.Execution.Precedence.FairKey,
		FairWeight: t.Execution.Precedence.FairWeight, LimitKey: t.Execution.Precedence.LimitKey,
		Cost:  t.Execution.Precedence.Cost,
		Slots: t.Execution.Reach.Slots, Select: t.Execution.Reach.Select, Prefer: prefer, Route: route,
	}, nil
}

func (t *templateFlags) typeAndPayload(stdin io.Reader) (string, json.RawMessage, error) {
	switch {
	case t.URL != "":
		payload, err := t.HTTPCall.Payload(stdin, t.URL)
		return "http", payload, err
	case t.Target != "":
		call := t.GRPCCall
		call.Data, call.RetryCodes, call.Certificate = t.HTTPCall.Data, t.HTTPCall.RetryCodes, t.HTTPCall.Certificate
		payload, err := call.Payload(stdin, t.Target, t.HTTPCall.Method)
		return "grpc", payload, err
	case t.Type != "":
		payload, err := flags.JSON(stdin, "--payload", t.Payload)
		return t.Type, payload, err
	}
	payload, err := t.Shell.Payload(stdin, t.Command)
	return "shell", payload, err
}
