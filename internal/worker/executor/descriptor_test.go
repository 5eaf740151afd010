package executor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/task"
)

// delay is the section of an executor with one setting.
type delay struct{ value time.Duration }

func (d *delay) Declare(flags *pflag.FlagSet) {
	flags.DurationVar(&d.value, "slow-delay", time.Second, "how slow it is")
}

func (d *delay) Validate() error {
	if d.value < 0 {
		return errors.New("slow-delay: must not be negative")
	}
	return nil
}

// twoTypes is a table of one type that every worker runs and one that a node has to enable.
func twoTypes() Table {
	newPlain := func(Options) (Executor, error) { return plain{}, nil }
	return Table{
		{Type: "fast", Timeout: time.Second, New: newPlain, CheckPayload: func(context.Context, json.RawMessage) error { return nil }},
		{
			Type: "slow", Timeout: time.Minute, New: newPlain, OptIn: "run slow tasks", Settings: &delay{},
			CheckPayload: func(context.Context, json.RawMessage) error { return Invalid("speed", "is missing") },
		},
	}
}

func parse(t *testing.T, table Table, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	table.Declare(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func wantTypes(t *testing.T, table Table, want ...string) {
	t.Helper()
	built, err := table.Build(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := built.Types(); !slices.Equal(got, want) {
		t.Errorf("the node runs %v, want %v", got, want)
	}
}

func TestTable_BuildsATypeWithOptInOnlyIfItIsEnabled(t *testing.T) {
	table := twoTypes()
	parse(t, table)
	wantTypes(t, table, "fast")

	table = twoTypes()
	parse(t, table, "--enable-slow")
	wantTypes(t, table, "fast", "slow")
}

func TestTable_WarnsOfSettingsOfATypeThatIsOff(t *testing.T) {
	const warning = `setting=slow-delay remedy="set enable-slow, or leave slow-delay out"`
	for line, want := range map[string]string{
		"": "", "--slow-delay=5s": warning, "--slow-delay=1s": "", "--enable-slow --slow-delay=5s": "",
	} {
		var logged strings.Builder
		table := twoTypes()
		parse(t, table, strings.Fields(line)...)
		if _, err := table.Build(Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}); err != nil {
			t.Fatal(err)
		}
		if got := logged.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: logged %q", line, got)
		}
	}
}

func TestTable_EnableAllIsADefaultThatTheSettingBeats(t *testing.T) {
	table := twoTypes()
	table.EnableAll()
	parse(t, table)
	wantTypes(t, table, "fast", "slow")

	table = twoTypes()
	table.EnableAll()
	parse(t, table, "--enable-slow=false")
	wantTypes(t, table, "fast")
}

func TestTable_DisableUnlessKeepsTypesWhoseFlagWasGiven(t *testing.T) {
	table := twoTypes()
	table.EnableAll()
	table.DisableUnless(parse(t, table).Changed)
	wantTypes(t, table, "fast")

	table = twoTypes()
	table.DisableUnless(parse(t, table, "--enable-slow").Changed)
	wantTypes(t, table, "fast", "slow")
}

func TestTable_ValidateChecksTheSettingsOfAllExecutors(t *testing.T) {
	table := twoTypes()
	parse(t, table, "--slow-delay=1m")
	if err := table.Validate(); err != nil {
		t.Error(err)
	}
	table = twoTypes()
	parse(t, table, "--slow-delay=-1s")
	if err := table.Validate(); err == nil || !strings.HasPrefix(err.Error(), "slow-delay:") {
		t.Errorf("error is %v", err)
	}
}

func TestTable_TypesDescribesAlsoTypesThatAreNotEnabled(t *testing.T) {
	types := twoTypes().Types()
	if got := types.Timeout(task.Definition{Type: "slow"}); got != time.Minute {
		t.Errorf("timeout is %s", got)
	}
	if err := types.CheckPayload(t.Context(), "fast", nil); err != nil {
		t.Error(err)
	}
	var refused *task.Error
	err := types.CheckPayload(t.Context(), "slow", json.RawMessage(`{}`))
	if !errors.As(err, &refused) || refused.Code != task.CodeInvalid || refused.Field != "payload.speed" || refused.Message != "is missing" {
		t.Errorf("error is %#v", err)
	}
}

func TestTable_BuildClosesWhatItMadeWhenOneFails(t *testing.T) {
	var closed []time.Duration
	failure := errors.New("no such device")
	table := Table{
		{Type: "a", New: func(Options) (Executor, error) { return closer{grace: 1, closed: &closed}, nil }},
		{Type: "b", New: func(Options) (Executor, error) { return nil, failure }},
	}
	built, err := table.Build(Options{})
	if !errors.Is(err, failure) || err.Error() != "executor b: no such device" || built != nil {
		t.Errorf("got %v, %v", built, err)
	}
	if len(closed) != 1 {
		t.Errorf("closed %d executors", len(closed))
	}
}
