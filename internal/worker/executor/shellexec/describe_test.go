package shellexec

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/worker/executor"
)

func TestDescribe_AnAttemptMayTakeTenMinutes(t *testing.T) {
	if got := Describe().Timeout; got != 10*time.Minute {
		t.Errorf("the default timeout is %s, want 10m", got)
	}
}

func TestDescribe_TheSettingGraceReachesTheExecutor(t *testing.T) {
	d := Describe()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	d.Settings.Declare(flags)
	for value, want := range map[string]string{
		"":       "5s",
		"1m":     "1m0s",
		"-1ns":   "shell-grace: -1ns must be 0s to 10m0s",
		"10m1ms": "shell-grace: 10m0.001s must be 0s to 10m0s",
	} {
		if value == "" {
			value = flags.Lookup("shell-grace").DefValue
		}
		if err := flags.Set("shell-grace", value); err != nil {
			t.Fatal(err)
		}
		if err := d.Settings.Validate(); err != nil {
			if err.Error() != want {
				t.Errorf("%s: error is %q, want %q", value, err, want)
			}
			continue
		}
		e, err := d.New(executor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.(*Executor).Grace().String(); got != want || strings.HasPrefix(want, "shell-grace") {
			t.Errorf("%s: the executor waits for %s, want %s", value, got, want)
		}
	}
}

func TestDescribe_RefusesNamesThatAreNoVariables(t *testing.T) {
	for value, ok := range map[string]bool{"PATH,TZ": true, "": true, "A B": false, "A=1": false, "PATH,DTS_TASK_ID": false} {
		d := Describe()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		d.Settings.Declare(flags)
		if err := flags.Set("shell-env", value); err != nil {
			t.Fatal(err)
		}
		if err := d.Settings.Validate(); (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "shell-env: ") {
			t.Errorf("%q: %v", value, err)
		}
	}
}
