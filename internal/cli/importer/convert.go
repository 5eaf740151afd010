package importer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/importer/crontab"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// imported is a line of a crontab as a schedule, or why it is none.
type imported struct {
	number     int
	id         string
	definition wire.ScheduleDefinition
	outcome    string // created, changed, unchanged or refused; "" before it is put
	reason     string // of a refusal
	isReboot   bool   // it is refused, and never was a schedule
}

const refused = "refused"

// convert turns the lines of a crontab into schedules, in their order. Error: a *command.UsageError if no zone is known.
func convert(text string, system bool, s settings) ([]imported, error) {
	entries, refusals := crontab.Parse(text, system)
	if err := s.checkZone(entries); err != nil {
		return nil, err
	}
	var lines []imported
	for _, r := range refusals {
		lines = append(lines, imported{number: r.Line, outcome: refused, reason: r.Reason, isReboot: r.Reboot})
	}
	n := newNaming()
	for _, e := range entries {
		id, twin := n.name(e)
		line := imported{number: e.Line, id: s.Prefix + id}
		err := s.define(&line, e)
		if twin > 0 {
			err = fmt.Errorf("is the same as line %d: one schedule runs a command once at a time", twin)
		}
		if err != nil {
			line.outcome, line.reason = refused, err.Error()
		}
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b imported) int { return cmp.Compare(a.number, b.number) })
	return lines, nil
}

// checkZone refuses to guess in which zone a time is meant.
func (s settings) checkZone(entries []crontab.Entry) error {
	if s.Timezone != "" {
		return nil
	}
	for _, e := range entries {
		if e.Zone == "" {
			return command.Usagef("--timezone is missing: line %d has no CRON_TZ above it. In which zone is the machine of cron, such as Europe/Berlin or UTC?", e.Line)
		}
	}
	return nil
}

// define makes the definition of a line. Error: DTS does not know the time or the zone.
func (s settings) define(line *imported, e crontab.Entry) error {
	zone := cmp.Or(e.Zone, s.Timezone)
	spec := schedule.Spec{Rules: []schedule.Rule{{Cron: e.When}}, Exclude: e.Exclude, Timezone: zone}
	if _, err := schedule.Compile(spec, task.Ref{Namespace: task.DefaultNamespace, ID: line.id}, time.Time{}); err != nil {
		var invalid *task.Error
		if errors.As(err, &invalid) {
			return fmt.Errorf("%s %s", invalid.Field, invalid.Message)
		}
		return err
	}
	template, err := s.template(e)
	if err != nil {
		return err
	}
	overlap := wire.Overlap(s.Overlap)
	line.definition = wire.ScheduleDefinition{
		Cron: &e.When, Timezone: &zone, Exclude: e.Exclude, Overlap: &overlap, Labels: new(s.labels()),
		Description: new(task.Cut(fmt.Sprintf("Line %d of %s", e.Line, s.Source), schedule.DescriptionLimit)), Task: template,
	}
	if e.Delay > 0 {
		line.definition.Jitter = new(e.Delay.String())
	}
	if e.MailTo != "" {
		line.definition.Owner = new(task.Cut(e.MailTo, task.OwnerLimit))
	}
	return nil
}

// shellPayload is the payload of a task of type shell.
type shellPayload struct {
	Command []string          `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	Stdin   string            `json:"stdin,omitempty"`
	User    string            `json:"user,omitempty"`
}

// The labels of an imported schedule say which import looks after it.
const (
	labelFrom   = "imported-from"
	labelSource = "crontab"
	labelPrefix = "crontab-prefix" // not set without --prefix
)

func (s settings) labels() wire.Labels {
	l := wire.Labels{labelFrom: "crontab", labelSource: task.Cut(s.Source, task.LabelLimit)}
	if s.Prefix != "" {
		l[labelPrefix] = task.Cut(s.Prefix, task.LabelLimit)
	}
	return l
}

const defaultShell = "/bin/sh" // of cron

// template makes the task of a line. Cron goes to HOME before it runs a command.
func (s settings) template(e crontab.Entry) (wire.TaskTemplate, error) {
	payload, err := wire.Encode(shellPayload{
		Command: []string{cmp.Or(e.Shell, defaultShell), "-c", e.Command}, Env: e.Env, Dir: e.Env["HOME"], Stdin: e.Stdin, User: e.User,
	})
	t := wire.TaskTemplate{Type: "shell", Payload: payload, Timeout: new(s.Timeout.String()), Retry: &wire.Retry{MaxAttempts: &s.MaxAttempts}}
	if s.Queue != "" {
		t.Queue = &s.Queue
	}
	return t, err
}
