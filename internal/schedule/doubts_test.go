package schedule

import (
	"strings"
	"testing"
)

func TestDoubts_NamesWhatQuartzAndAWSWouldRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0 0 12 ? * 2":       "cron: the day of week 2 means TUE here|it means MON:",
		"0 12 ? * 2-6":       "means TUE-SAT here|it means MON-FRI:",
		"0 0 12 * * 5 *":     "means FRI here|it means THU:",
		"0 0 12 ? * 5L":      "means FRIL here|it means THUL:",
		"0 0 12 ? * 5#2":     "means FRI#2 here|it means THU#2:",
		"0 0 12 ? * 2/2":     "means TUE/2 here|it means MON/2:",
		"0 0 12 ? * 7":       "means SUN here|it means SAT:",
		"0 0 12 1,15 ? 1 *":  "means MON here|it means SUN:",
		"0 12 ? * 2 *":       "cron: of six fields, the first is the second here",
		"0 12 * * ? *":       "of six fields",
		"0 0 12 ? * MON-FRI": "",
		"0 0 12 ? * *":       "",
		"0 0 12 * * ?":       "",
		"0 0 12 ? * 0,3":     "", // Quartz has no 0
		"0 12 * * 2":         "",
		"0 0 12 * * 2":       "",
		"0 0 12 15 * ? 2027": "",
		"0 12 ? * MON#2":     "",
		"? * * * *":          "cron: ? means every minute here, as * does;",
		"0 ? * * *":          "? means every hour here",
		"0 ? 12 * * *":       "? means every minute here",
		"0 12 * ? *":         "? means every month here",
		"?/5 * * * *":        "? means every minute here",
		"0 0 12 * * ? ?":     "? means every year here",
		"? ? ? ? ?":          "every minute|every hour|every month",
		"? 12 ? * 2":         "every minute|means TUE here|it means MON:",
		"*/5 * * * *":        "",
		"@weekly":            "",
	} {
		got := strings.Join(Definition{Spec: Spec{Rules: []Rule{{Cron: text}}}}.Doubts(), "\n")
		for part := range strings.SplitSeq(want, "|") {
			if (got == "") != (want == "") || !strings.Contains(got, part) {
				t.Errorf("%s: %q, want %q", text, got, part)
			}
		}
	}
	got := Definition{Spec: Spec{
		Rules: []Rule{{Cron: "@daily"}, {Cron: "0 0 ? * 2"}}, Exclude: []string{"2026-12-24", "* * ? * 1"},
	}}.Doubts()
	if len(got) != 2 || !strings.HasPrefix(got[0], "specs[1].cron: ") || !strings.HasPrefix(got[1], "exclude[1]: ") {
		t.Errorf("got %q", got)
	}
}
