package builtin

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/payloads"
)

func TestTable_EveryDescriptorIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Table() {
		definition := task.Definition{Ref: task.Ref{ID: "a"}, Type: d.Type}.Normalize()
		if err := definition.Validate(time.Now()); err != nil || seen[d.Type] {
			t.Errorf("%q is no name for a type, or is there twice: %v", d.Type, err)
		}
		seen[d.Type] = true
		if d.Timeout <= 0 || d.Timeout > task.DefaultTimeout {
			t.Errorf("%s: timeout %s must be more than 0 and at most %s", d.Type, d.Timeout, task.DefaultTimeout)
		}
		var invalid *executor.InvalidPayloadError
		if err := d.CheckPayload(t.Context(), json.RawMessage(`{"no field has this name": 1}`)); !errors.As(err, &invalid) {
			t.Errorf("%s accepts a payload with an unknown field: %v", d.Type, err)
		}
	}
}

func TestTable_HasTheTypesThatPackagePayloadsChecks(t *testing.T) {
	known, checked := Table().Types(), payloads.Types()
	if len(known) != len(checked) {
		t.Errorf("there are %d types, and payloads of %d are checked", len(known), len(checked))
	}
	for name, want := range known {
		got := checked[name]
		if got.Timeout != want.Timeout || got.Setting != want.Setting || (got.CheckPayload == nil) != (want.CheckPayload == nil) {
			t.Errorf("%s: package payloads has %+v, want %+v", name, got, want)
		}
	}
}

func TestTable_SettingsAreNamedAfterTheirTypeAndHaveValidDefaults(t *testing.T) {
	for _, d := range Table() {
		if d.Settings == nil {
			continue
		}
		flags := pflag.NewFlagSet(d.Type, pflag.ContinueOnError)
		d.Settings.Declare(flags)
		flags.VisitAll(func(f *pflag.Flag) {
			if !strings.HasPrefix(f.Name, d.Type+"-") || f.Usage == "" {
				t.Errorf("setting %q must begin with %q and have a help text", f.Name, d.Type+"-")
			}
		})
		if err := d.Settings.Validate(); err != nil {
			t.Errorf("%s: its defaults are invalid: %v", d.Type, err)
		}
	}
}

func TestTable_BuildsEveryType(t *testing.T) {
	table := Table()
	table.EnableAll()
	built, err := table.Build(executor.Options{Redis: "redis://127.0.0.1:6379"})
	if err != nil {
		t.Fatal(err)
	}
	if len(built) != len(table) {
		t.Errorf("built %v", built.Types())
	}
	if err := built.Close(); err != nil {
		t.Error(err)
	}
}

// Nobody looks at a payload before an executor does, and Redis may have damaged it.
func TestTable_EveryTypeRefusesADamagedPayload(t *testing.T) {
	table := Table()
	table.EnableAll()
	built, err := table.Build(executor.Options{Redis: "redis://127.0.0.1:6379"})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, built.Close()) }()
	for name, e := range built {
		for _, payload := range []string{"{", `{}{}`, `{"sleep": "1ms"`, "{} x", "x"} {
			result, err := e.Execute(t.Context(), executor.Attempt{Type: name, Payload: json.RawMessage(payload)})
			if !executor.IsPermanent(err) || result != "" {
				t.Errorf("%s, %s: %q, %v; want a final error", name, payload, result, err)
			}
		}
	}
}

func TestTable_RunsNoCommandsUnlessEnabled(t *testing.T) {
	built, err := Table().Build(executor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, enabled := built["shell"]; enabled {
		t.Error("a node runs shell tasks without being told to")
	}
}

func TestTable_EveryTypeIsInTheREADME(t *testing.T) {
	text, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Table() {
		if !strings.Contains(string(text), "\n| `"+d.Type+"` |") {
			t.Errorf("the table of types in README.md has no row for %s", d.Type)
		}
	}
}
