package task

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLimitKey_SaysWhatIsWrong checks limit_key in submissions and follow-ups.
func TestLimitKey_SaysWhatIsWrong(t *testing.T) {
	longest := strings.Repeat("k", 100)
	const characters = " must be 1 to 100 characters of A-Z a-z 0-9 . _ -; give keys as in tenant-7,api-x"
	for text, want := range map[string]string{
		"":                   "",
		"tenant-7":           "",
		"b,a.1,_":            "",
		longest + ",a,b":     "",
		"a,b,c,d":            "limit_key: has 4 keys, at most 3 are allowed",
		"a,b,a":              `limit_key: has "a" twice: name each key once`,
		"a,tenant 7":         `limit_key: "tenant 7"` + characters,
		"a, b":               `limit_key: " b"` + characters,
		"a,":                 `limit_key: ""` + characters,
		",":                  `limit_key: ""` + characters,
		"größe":              `limit_key: "größe"` + characters,
		"a," + longest + "k": "limit_key: key 2 is 101 characters long, at most 100 are allowed",
	} {
		d := Definition{Ref: Ref{ID: "t"}, Type: "noop", LimitKey: text}
		equal(t, text, d.Normalize().Validate(time.Now()), want)
		d.ID = ""
		parent := Definition{Ref: Ref{ID: "t"}, Type: "noop", OnEnd: &FollowUp{When: WhenEnded, Task: d}}
		if want != "" {
			want = "on_end.task." + want
		}
		equal(t, text+" in a follow-up", parent.Normalize().Validate(time.Now()), want)
	}
}

func equal(t *testing.T, what string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%q: got %q, want %q", what, got, want)
	}
}

// TestLimitKeys_KeepsTheOrder: the keys stay as somebody wrote them, also in a normalized definition.
func TestLimitKeys_KeepsTheOrder(t *testing.T) {
	for text, want := range map[string][]string{"": nil, "b": {"b"}, "b,c,a": {"b", "c", "a"}} {
		got := Definition{LimitKey: text}.Normalize().LimitKeys()
		if !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A run of a workflow holds no slot of a limit: the tasks of its steps do.
func TestLimitKey_IsForStepsNotForRuns(t *testing.T) {
	run := Definition{Ref: Ref{ID: "t"}, Type: WorkflowType, LimitKey: "a"}.Normalize()
	err := run.Validate(time.Now())
	if err == nil || !strings.HasPrefix(err.Error(), "limit_key: is for the tasks of steps") {
		t.Errorf("got %v", err)
	}
}
