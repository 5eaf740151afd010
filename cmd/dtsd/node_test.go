package main

import (
	"log/slog"
	"testing"

	"github.com/dts-sched/dts/internal/config"
)

func TestNode_HasTheMonitorTheProfilesAndTheDocs(t *testing.T) {
	if o := (node{}).options(config.Default(), slog.New(slog.DiscardHandler)); o.Monitor == nil || o.Profiles == nil || o.Docs == nil {
		t.Errorf("got %+v", o)
	}
}
