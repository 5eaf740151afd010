package main

import (
	"log/slog"
	"testing"

	"github.com/dts-sched/dts/internal/config"
)

func TestNode_AnswersToThisMachineOnlyIfItRunsWhateverItIsTold(t *testing.T) {
	for _, c := range []struct {
		embedded bool
		listen   string
		want     bool
	}{
		{true, "127.0.0.1:8080", true},
		{true, ":8080", false},
		{false, "127.0.0.1:8080", false},
	} {
		cfg := config.Default()
		cfg.Listen = c.listen
		if got := (node{embedded: c.embedded}).options(cfg, slog.New(slog.DiscardHandler)).LocalOnly; got != c.want {
			t.Errorf("embedded %v, at %s: %v, want %v", c.embedded, c.listen, got, c.want)
		}
	}
}

func TestNode_HasTheMonitorAndTheProfiles(t *testing.T) {
	if o := (node{}).options(config.Default(), slog.New(slog.DiscardHandler)); o.Monitor == nil || o.Profiles == nil {
		t.Errorf("got %+v", o)
	}
}
