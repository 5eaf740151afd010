package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/app/otlp"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/worker/executor/builtin"
)

const exampleFile = "../../deploy/dtsd.yaml"

// load finds the settings of dtsd serve in a file. It returns the flags too, as they show the values of the executors.
func load(t *testing.T, file string) (config.Config, *pflag.FlagSet) {
	t.Helper()
	flags := pflag.NewFlagSet("dtsd", pflag.ContinueOnError)
	settings := config.Bind(flags, config.Default(), builtin.Table(), &otlp.Settings{})
	if err := flags.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	c, err := settings.Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := settings.Validate(); err != nil {
		t.Error(err)
	}
	return c, flags
}

// uncommented is the example file with every setting in force.
func uncommented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	var active strings.Builder
	for line := range strings.Lines(string(text)) {
		if bare, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(line, "# ") && bare != "\n" || strings.HasPrefix(line, "#  ") {
			active.WriteString(bare)
		}
	}
	return active.String()
}

func TestExampleFile_NamesEverySettingWithItsDefault(t *testing.T) {
	active := uncommented(t)
	path := filepath.Join(t.TempDir(), "dtsd.yaml")
	if err := os.WriteFile(path, []byte(active), 0o600); err != nil {
		t.Fatal(err)
	}
	c, flags := load(t, path)
	want := config.Default()
	want.Concurrency = c.Concurrency // depends on the machine
	want.Pools = c.Pools             // the example shows some
	want.Partitions = 16             // at the first start; later, the existing number
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("the example shows other defaults (-want +got):\n%s", diff)
	}
	sections := pflag.NewFlagSet("sections", pflag.ContinueOnError)
	builtin.Table().Declare(sections)
	new(otlp.Settings).Declare(sections)
	sections.VisitAll(func(f *pflag.Flag) {
		if f.Name == "shell-users" { // the example shows some: an empty value is an error
			return
		}
		if got := flags.Lookup(f.Name).Value.String(); got != f.DefValue {
			t.Errorf("the example shows %s: %s, the default is %s", f.Name, got, f.DefValue)
		}
	})
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && !strings.Contains(active, f.Name+":") {
			t.Errorf("the example does not show %s", f.Name)
		}
	})
}

func TestExampleFile_IsValidAsItStands(t *testing.T) {
	load(t, exampleFile)
}
