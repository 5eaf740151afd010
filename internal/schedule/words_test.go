package schedule

import (
	"testing"
	"time"
)

func TestSpec_InWords(t *testing.T) {
	for cron, want := range map[string]string{
		"* * * * *":         "every minute",
		"*/15 * * * *":      "every 15 minutes",
		"*/7 * * * *":       "at every 7th minute",
		"30 2 * * MON-FRI":  "at 02:30, on Monday to Friday",
		"0 6,18 * * *":      "at 06:00 and 18:00",
		"5,35 7-19 * * 1-5": "at minutes 5 and 35 in hours 7 to 19, on Monday to Friday",
		"30 * * * *":        "at minute 30 of every hour",
		"*/20 8 * * *":      "every 20 minutes in hour 8",
		"0 18 LW * *":       "at 18:00, on the last weekday of the month (Monday to Friday)",
		"0 6 1,15 * *":      "at 06:00, on day 1 of the month and day 15 of the month",
		"0 6 L-3,15W 1-3,JUN *": "at 06:00, on the day 3 before the last of the month and " +
			"the Monday to Friday nearest to day 15 of the month, in January to March and June",
		"0 6 1 * MON":             "at 06:00, on day 1 of the month, and also on Monday",
		"0 6 * * 5L,TUE#2":        "at 06:00, on the last Friday of the month and the second Tuesday of the month",
		"0 6 * * 7":               "at 06:00, on Sunday",
		"H H * * *":               "at the minute that its id decides in the hour that its id decides",
		"*/10 * * * * *":          "every 10 seconds",
		"15 0 0 1 1 * 2027":       "at 00:00:15, on day 1 of the month, in January, in 2027",
		"0 0 0 ? * * 2027-2030/2": "at 00:00, in every 2nd year from 2027 to 2030",
		"* 5 * * * *":             "every second at minute 5 of every hour",
		"10-40/15 * * * *":        "at every 15th minute from 10 to 40",
		"20/15 */2 * * *":         "at every 15th minute from 20 on in every 2nd hour",
		"@daily":                  "at 00:00",
		"0 0 */2 * *":             "at 00:00, on every 2nd day of the month",
	} {
		s := Spec{Rules: []Rule{{Cron: cron}}}
		if _, err := parseExpression(cron, "a"); err != nil {
			t.Errorf("%s: %v", cron, err)
		}
		if got := s.InWords()[0]; got != want {
			t.Errorf("%s: %q, want %q", cron, got, want)
		}
	}
}

func TestSpec_InWords_Intervals(t *testing.T) {
	s := Spec{Rules: []Rule{{Every: 90 * time.Second}}}
	if got := s.InWords()[0]; got != "every 1m30s, counted from when the schedule was created" {
		t.Error(got)
	}
	s.StartAt = time.Unix(0, 0)
	if got := s.InWords()[0]; got != "every 1m30s, counted from start_at" {
		t.Error(got)
	}
}
