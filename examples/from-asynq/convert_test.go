package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts"
)

var given = defaults{timezone: "Asia/Shanghai", timeout: time.Hour}

// digests are the ends of ids.
var digests = regexp.MustCompile(`-[0-9a-f]{8}\b`)

func config(spec string, task *asynq.Task, options ...asynq.Option) *asynq.PeriodicTaskConfig {
	return &asynq.PeriodicTaskConfig{Cronspec: spec, Task: task, Opts: options}
}

func TestConvert_KeepsWhatAConfigMeans(t *testing.T) {
	t.Parallel()
	mail := asynq.NewTask("email:send", []byte(`{"to":1}`))
	for name, c := range map[string]struct {
		config  *asynq.PeriodicTaskConfig
		payload string
		want    dts.ScheduleDefinition
	}{
		"defaults": {
			config("0 9 * * 1-5", mail), `{"type":"email:send","payload":{"to":1},"queue":"default","max_retry":25,"archived_is_final":true}`,
			dts.ScheduleDefinition{Cron: "0 9 * * 1-5", Timezone: "Asia/Shanghai", Overlap: dts.OverlapAllow},
		},
		"a zone of its own, and options": {
			config("CRON_TZ=Europe/Berlin @daily", mail, asynq.Queue("mails"), asynq.MaxRetry(0), asynq.Timeout(time.Minute), asynq.Retention(time.Hour)),
			`{"type":"email:send","payload":{"to":1},"queue":"mails","max_retry":0,"archived_is_final":true,"timeout":"1m0s","retention":"1h0m0s"}`,
			dts.ScheduleDefinition{Cron: "@daily", Timezone: "Europe/Berlin", Overlap: dts.OverlapAllow},
		},
		"an interval, never twice at once": {
			config("@every 90s", asynq.NewTask("a", []byte(`{ "spaced": 1 }`)), asynq.Unique(time.Hour)),
			`{"type":"a","payload_base64":"eyAic3BhY2VkIjogMSB9","queue":"default","max_retry":25,"archived_is_final":true}`,
			dts.ScheduleDefinition{Every: 90 * time.Second, Overlap: dts.OverlapSkip},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := convert(c.config, given)
			payload, err := json.Marshal(got.definition.Task.Payload)
			if err != nil || got.err != nil {
				t.Fatal(err, got.err)
			}
			d := got.definition
			if string(payload) != c.payload || d.Cron != c.want.Cron || d.Every != c.want.Every || d.Timezone != c.want.Timezone || d.Overlap != c.want.Overlap {
				t.Errorf("got %+v with the payload %s", d, payload)
			}
		})
	}
}

func TestConvert_RefusesWhatHasNoCounterpart(t *testing.T) {
	t.Parallel()
	task := asynq.NewTask("a", nil)
	for name, c := range map[string]*asynq.PeriodicTaskConfig{
		"nothing": nil, "no task": config("@daily", nil), "a group": config("@daily", task, asynq.Group("g")),
		"a delay": config("@daily", task, asynq.ProcessIn(time.Minute)), "a deadline": config("@daily", task, asynq.Deadline(time.Unix(1, 0))),
		"no interval": config("@every soon", task),
	} {
		if got := convert(c, given); got.err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestConvertAll_NamesSchedulesAfterTheirTasks(t *testing.T) {
	t.Parallel()
	id := func(i int, configs ...*asynq.PeriodicTaskConfig) string { return convertAll(configs, given)[i].id }
	mail, other := asynq.NewTask("email:send", []byte(`1`)), asynq.NewTask("email:send", []byte(`2`))
	alone := id(0, config("0 9 * * *", mail))
	if !strings.HasPrefix(alone, "email-send-") || alone != id(1, config("@daily", other), config("0 10 * * *", mail)) {
		t.Errorf("a new time, or another config, changes the id %s", alone)
	}
	if alone == id(0, config("0 9 * * *", other)) {
		t.Error("another task has the same id")
	}
	twice := []*asynq.PeriodicTaskConfig{config("0 9 * * *", mail), config("@daily", other), config("0 10 * * *", mail)}
	if a, b := id(0, twice...), id(2, twice...); a != alone || b != alone+"-2" {
		t.Errorf("two times of one task have the ids %s and %s, want %s and %[3]s-2", a, b, alone)
	}
}
