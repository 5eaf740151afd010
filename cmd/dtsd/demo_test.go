package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

// A node that others reach runs no shell tasks, and lets none call its API, unless a flag says so.
func TestDemo_SubmitsOnlyWhatTheNodeRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen string
		flags  []string
		kinds  []string
	}{
		{"127.0.0.1:0", nil, []string{"http", "shell"}},
		{"0.0.0.0:0", nil, []string{"noop"}},
		{"0.0.0.0:0", []string{"enable-shell"}, []string{"shell"}},
		{"0.0.0.0:0", []string{"http-allow-api"}, []string{"http", "noop"}},
	} {
		n := node{executors: builtin.Table(), embedded: true}
		n.executors.EnableAll()
		cfg := config.Default()
		cfg.Listen, cfg.HTTPAllowAPI = c.listen, true
		n.restrict(&cfg, func(flag string) bool { return slices.Contains(c.flags, flag) })
		d := n.demo("h:1", cfg)
		var kinds []string
		for _, s := range append(d.tasks(), d.limited()...) {
			kinds = append(kinds, s.Type)
		}
		slices.Sort(kinds)
		if kinds = slices.Compact(kinds); !slices.Equal(kinds, c.kinds) {
			t.Errorf("at %s with %q it submits %q, want %q", c.listen, c.flags, kinds, c.kinds)
		}
		for _, s := range append(d.schedules(), d.workflow()) {
			if strings.Contains(s.text, `"workflow": "etl"`) {
				continue // its steps are those of the workflow
			}
			if shell := strings.Contains(s.text, `"shell"`); shell != slices.Contains(c.kinds, "shell") {
				t.Errorf("at %s with %q, %s is %s", c.listen, c.flags, s.id, s.text)
			}
		}
	}
}

// Ids cannot have such characters; errors and results of others can.
func TestDemo_PrintsNothingThatATerminalObeys(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	hostile := "a\x1b]0;owned\x07\x1b[31mb\u009bc\u202ed\r\ne"
	printEvent(t.Context(), &out, nil, "failed", wire.Event{Task: "t", State: "failed", Error: &hostile})
	line, after, _ := strings.Cut(out.String(), "\n")
	if !strings.HasSuffix(line, "a]0;ownedbcd e") || after != "" {
		t.Errorf("%q, %q", line, after)
	}
}
