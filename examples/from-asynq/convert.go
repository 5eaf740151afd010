package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts"
)

// asynqRetries is asynq's default.
const asynqRetries = 25

// defaults are what a config does not say.
type defaults struct {
	queue    string // of DTS
	timezone string
	timeout  time.Duration
	prefix   string // of the ids
}

// The labels of a schedule, by which what is left over is found.
const (
	labelFrom   = "imported-from"
	labelPrefix = "asynq-prefix"
)

// labels are those of every schedule.
func (d defaults) labels() map[string]string {
	labels := map[string]string{labelFrom: "asynq"}
	if d.prefix != "" {
		labels[labelPrefix] = d.prefix
	}
	return labels
}

// converted is a config as a schedule, or why it cannot be one.
type converted struct {
	id         string
	definition dts.ScheduleDefinition
	err        error
}

// order is the payload of a task of type asynq.
type order struct {
	Type          string          `json:"type"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 string          `json:"payload_base64,omitempty"`
	Queue         string          `json:"queue"`
	MaxRetry      int             `json:"max_retry"`
	ArchivedFinal bool            `json:"archived_is_final"`
	Timeout       string          `json:"timeout,omitempty"`
	Retention     string          `json:"retention,omitempty"`
}

// convertAll converts all configs. The id of a schedule comes from what the task is and not from its time, so that a new time
// changes the schedule instead of making a second one. Configs of the same task get -2, -3 and so on in their order.
func convertAll(configs []*asynq.PeriodicTaskConfig, d defaults) []converted {
	all := make([]converted, len(configs))
	count := make(map[string]int)
	for i, c := range configs {
		one := convert(c, d)
		if count[one.id]++; one.err == nil && count[one.id] > 1 {
			one.id += fmt.Sprintf("-%d", count[one.id])
		}
		all[i] = one
	}
	return all
}

func convert(c *asynq.PeriodicTaskConfig, d defaults) converted {
	if c == nil || c.Task == nil {
		return converted{err: errors.New("has no task")}
	}
	o := order{Type: c.Task.Type(), Queue: "default", MaxRetry: asynqRetries, ArchivedFinal: true}
	s := dts.ScheduleDefinition{Timezone: d.timezone, Overlap: dts.OverlapAllow, Labels: d.labels()}
	o.setPayload(c.Task.Payload())
	for _, option := range c.Opts {
		if err := o.set(option, &s); err != nil {
			return converted{err: err}
		}
	}
	if err := setTimes(&s, c.Cronspec); err != nil {
		return converted{err: err}
	}
	s.Task = dts.TaskTemplate{Type: "asynq", Queue: d.queue, Payload: o, Timeout: d.timeout}
	return converted{id: d.prefix + o.id(), definition: s}
}

// setPayload takes JSON as it is, because it is readable, if it comes out of DTS byte by byte as it went in.
func (o *order) setPayload(payload []byte) {
	compact, err := json.Marshal(json.RawMessage(payload))
	if err == nil && string(compact) == string(payload) && string(payload) != "null" {
		o.Payload = payload
		return
	}
	o.PayloadBase64 = base64.StdEncoding.EncodeToString(payload)
}

// set takes over an option. Options given to asynq.NewTask cannot be read from outside asynq: give them in Opts.
func (o *order) set(option asynq.Option, s *dts.ScheduleDefinition) error {
	switch value := option.Value().(type) {
	case int: // MaxRetry
		o.MaxRetry = value
	case time.Duration:
		return o.setDuration(option.Type(), value, s)
	case string:
		switch option.Type() {
		case asynq.QueueOpt:
			o.Queue = value
		case asynq.TaskIDOpt: // no second one while there is a first
			s.Overlap = dts.OverlapSkip
		default:
			return fmt.Errorf("%s has no counterpart", option)
		}
	default:
		return fmt.Errorf("%s makes no sense for a task that recurs", option)
	}
	return nil
}

func (o *order) setDuration(kind asynq.OptionType, d time.Duration, s *dts.ScheduleDefinition) error {
	switch kind {
	case asynq.TimeoutOpt:
		o.Timeout = d.String()
	case asynq.RetentionOpt:
		o.Retention = max(d, time.Minute).String()
	case asynq.UniqueOpt: // no second one while there is a first
		s.Overlap = dts.OverlapSkip
	default:
		return fmt.Errorf("a delay of %s has no counterpart: write the time at which the task is to run", d)
	}
	return nil
}

// setTimes takes a cronspec as asynq's scheduler reads it.
func setTimes(s *dts.ScheduleDefinition, spec string) (err error) {
	if zone, rest, found := strings.Cut(spec, " "); found && (strings.HasPrefix(zone, "CRON_TZ=") || strings.HasPrefix(zone, "TZ=")) {
		_, s.Timezone, _ = strings.Cut(zone, "=")
		spec = strings.TrimSpace(rest)
	}
	if every, found := strings.CutPrefix(spec, "@every "); found {
		s.Timezone = ""
		s.Every, err = time.ParseDuration(every)
		return err
	}
	s.Cron = spec
	return nil
}

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// id is made of the type, and of a digest of all that makes the task another one.
func (o *order) id() string {
	name := strings.Trim(notInIDs.ReplaceAllString(o.Type, "-"), "-")
	return name[:min(len(name), 100)] + "-" + digest(o.Type, o.Queue, string(o.Payload), o.PayloadBase64)
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}
