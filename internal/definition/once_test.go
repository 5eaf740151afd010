package definition_test

import (
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestParseOnce_ReadsWhatOnceTextWrites(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"singleton:a", "debounce:a,wait=5s,max=1m", "throttle:a,every=1m,excess=delay", "cancel_running:tenant-7",
	} {
		once, err := definition.ParseOnce(text)
		testkit.Must(t, err)
		d, err := definition.Task(wire.Submission{Once: once})
		testkit.Must(t, err)
		if got := definition.OnceText(d.Once); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"singleton": "must be MODE:KEY", ":a": "must be MODE:KEY", "latest:": "must be MODE:KEY",
		"latest:a,soon=1s": `"soon=1s" is no setting`,
	} {
		if _, err := definition.ParseOnce(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestInstead_KnowsWhatOtherSchedulersSay(t *testing.T) {
	for field, want := range map[string]string{
		"definition.steps[0].depends_on": "; did you mean needs?", "steps[12].name": "; did you mean id?",
		"finally[1].task.delay": ": a step begins as soon as those that it needs have ended",
		"on_failure[0].if":      "; did you mean when?", "steps[1].condition": "; did you mean when?",
		"steps[0].trigger_rule":                    "; did you mean rule?",
		"steps[0].task.if":                         "; did you mean steps[0].when?",
		"definition.steps[3].task.depends_on":      "; did you mean definition.steps[3].needs?",
		"workflows[2].finally[1].task.name":        "; did you mean workflows[2].finally[1].id?",
		"steps[0].task.needs":                      "; did you mean steps[0].needs?",
		"steps[0].task.when":                       "; did you mean steps[0].when?",
		"workflows[0].steps[0].task.allow_failure": "; did you mean workflows[0].steps[0].allow_failure?",
		"steps[0].task.once":                       "",
		"steps[0].task.payload.if":                 "",
		"steps[0].x":                               "",
		"name":                                     "", "task.delay": "", "schedules[0].name": "", "steps.name": "",
		"steps[0].payload.name": "",
	} {
		if got := definition.Instead(field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}
