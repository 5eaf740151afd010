package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name string
		spec Spec
	}{
		{"every minute", Spec{Rules: []Rule{{Cron: "* * * * *"}}}},
		{"every second", Spec{Rules: []Rule{{Cron: "* * * * * *"}}}},
		{"every minute in New York", Spec{Rules: []Rule{{Cron: "* * * * *"}}, Timezone: "America/New_York"}},
		{"every night in New York", Spec{Rules: []Rule{{Cron: "30 2 * * *"}}, Timezone: "America/New_York"}},
		{"every month in Berlin", Spec{Rules: []Rule{{Cron: "0 0 1 * *"}}, Timezone: "Europe/Berlin"}},
		{"every leap day", Spec{Rules: []Rule{{Cron: "0 0 29 2 *"}}}},
		{"last working day in Shanghai", Spec{Rules: []Rule{{Cron: "0 18 LW * *"}}, Timezone: "Asia/Shanghai"}},
		{"every 10 s", Spec{Rules: []Rule{{Every: 10 * time.Second}}}},
		{"excluded", Spec{Rules: []Rule{{Cron: "0 * * * *"}}, Exclude: []string{"2026-12-25", "* 0-6 * * *"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			table, err := Compile(c.spec, task.Ref{Namespace: "default", ID: "a"}, time.Time{})
			if err != nil {
				b.Fatal(err)
			}
			begin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
			at := begin
			b.ReportAllocs()
			for b.Loop() {
				tick, _ := table.Next(at)
				if at = tick.At; at.Year() > 2036 {
					at = begin
				}
			}
		})
	}
}

func BenchmarkForecast(b *testing.B) {
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, rules := range [][]Rule{
		{{Cron: "* * * * *"}},
		{{Cron: "* * * * * *"}},
		{{Every: time.Second}},
		{{Every: time.Second}, {Cron: "* * * * *"}},
	} {
		table, err := Compile(Spec{Rules: rules, Timezone: "America/New_York"}, task.Ref{ID: "a"}, from)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(rules), func(b *testing.B) {
			for b.Loop() {
				f := NewForecast(from, 1440)
				f.Add(task.Ref{}, table, from.Add(-1))
				if _, err := f.Forecast(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
