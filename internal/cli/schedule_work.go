package cli

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/client"
)

// work is what a schedule runs, in one of three ways to say it: a command, a URL to call, or any type.
type work struct {
	httpCall
	surroundings
	handling
	command []string
	url     string
	typ     string
	payload string
	owner   string
	labels  []string
}

func (w *work) bind(flags *pflag.FlagSet) {
	flags.StringVar(&w.url, "http", "", "run a task of type http, which calls this URL")
	w.httpCall.bind(flags)
	w.surroundings.bind(flags)
	flags.StringVar(&w.typ, "type", "", "run a task of this type")
	flags.StringVar(&w.payload, "payload", "", "what the executor of --type gets: JSON, @FILE, or @- for standard input")
	w.handling.bind(flags)
	flags.StringVar(&w.owner, "task-owner", "", "who answers for each task")
	flags.StringArrayVar(&w.labels, "task-label", nil, "a label of each task, as NAME=VALUE; may be repeated")
}

// The ways to say what runs, and the flags that go with each.
const (
	wayCommand = "-- COMMAND"
	wayHTTP    = "--http URL"
	wayType    = "--type TYPE"
)

var wayFlags = map[string][]string{wayCommand: shellFlags, wayHTTP: httpFlags, wayType: {"payload"}}

// template is the task of every tick.
func (w *work) template(s *session, flags *pflag.FlagSet) (client.TaskTemplate, error) {
	typ, payload, err := w.what(s, flags)
	if err != nil {
		return client.TaskTemplate{}, err
	}
	labels, err := pairs("--task-label", "=", w.labels)
	if err != nil {
		return client.TaskTemplate{}, err
	}
	return client.TaskTemplate{
		Type: typ, Payload: payload, Queue: given(flags, "queue", w.queue), Retry: w.retry(flags),
		Timeout: given(flags, "timeout", w.timeout.String()), Retention: given(flags, "retention", w.retention.String()),
		Owner: given(flags, "task-owner", w.owner), Labels: (*client.Labels)(labels),
	}, nil
}

// what is the type and the payload of the task.
func (w *work) what(s *session, flags *pflag.FlagSet) (string, json.RawMessage, error) {
	way, err := w.way(flags)
	if err != nil {
		return "", nil, err
	}
	switch way {
	case wayHTTP:
		payload, err := w.httpCall.payloadFor(s, w.url)
		return "http", payload, err
	case wayType:
		payload, err := s.payloadFrom(flags, w.payload)
		return w.typ, payload, err
	}
	payload, err := w.surroundings.payloadFor(s, w.command)
	return "shell", payload, err
}

// way is which of the three was taken. Exactly one must be, and no flag of another one be given.
func (w *work) way(flags *pflag.FlagSet) (string, error) {
	var ways []string
	for way, taken := range map[string]bool{wayCommand: len(w.command) > 0, wayHTTP: w.url != "", wayType: w.typ != ""} {
		if taken {
			ways = append(ways, way)
		}
	}
	slices.Sort(ways)
	switch {
	case len(ways) == 0:
		return "", usagef("nothing to run: give %s, %s or %s", wayCommand, wayHTTP, wayType)
	case len(ways) > 1:
		return "", usagef("%s: give one of them", strings.Join(ways, " and "))
	}
	for way, names := range wayFlags {
		for _, name := range names {
			if way != ways[0] && flags.Changed(name) {
				return "", usagef("--%s goes with %s, not with %s", name, way, ways[0])
			}
		}
	}
	return ways[0], nil
}
