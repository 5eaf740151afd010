package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

func TestExpression_Ticks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want string // the first ticks after Saturday 2026-11-21 10:30:15
	}{
		{"* * * * *", "2026-11-21 10:31:00, 2026-11-21 10:32:00"},
		{"  *\t* *  * * ", "2026-11-21 10:31:00"},
		{"* * * * * *", "2026-11-21 10:30:16, 2026-11-21 10:30:17"},
		{"*/20 30 10 * * *", "2026-11-21 10:30:20, 2026-11-21 10:30:40, 2026-11-22 10:30:00"},
		{"15 30 10 * * *", "2026-11-22 10:30:15"},
		{"5/20 * * * *", "2026-11-21 10:45:00, 2026-11-21 11:05:00, 2026-11-21 11:25:00"},
		{"0 9-17/4 * * MON-FRI", "2026-11-23 09:00:00, 2026-11-23 13:00:00, 2026-11-23 17:00:00, 2026-11-24 09:00:00"},
		{"0 0 ? * ?", "2026-11-22 00:00:00"},
		{"0 0 1 jan,Jul *", "2027-01-01 00:00:00, 2027-07-01 00:00:00"},
		{"0 0 * * 0", "2026-11-22 00:00:00, 2026-11-29 00:00:00"},
		{"0 0 * * 7", "2026-11-22 00:00:00, 2026-11-29 00:00:00"},
		{"0 0 * * 5-7", "2026-11-22 00:00:00, 2026-11-27 00:00:00, 2026-11-28 00:00:00, 2026-11-29 00:00:00"},
		{"0 0 * * FRI-MON", "2026-11-22 00:00:00, 2026-11-23 00:00:00, 2026-11-27 00:00:00, 2026-11-28 00:00:00"},
		{"0 0 * * FRI-MON/2", "2026-11-22 00:00:00, 2026-11-27 00:00:00, 2026-11-29 00:00:00"},
		{"0 0 * * 6-0,7-1", "2026-11-22 00:00:00, 2026-11-23 00:00:00, 2026-11-28 00:00:00"},
		{"0 0 * * FRI-SUN", "2026-11-22 00:00:00, 2026-11-27 00:00:00, 2026-11-28 00:00:00, 2026-11-29 00:00:00"},
		{"0 0 * * 5-7/2", "2026-11-22 00:00:00, 2026-11-27 00:00:00, 2026-11-29 00:00:00"},
		{"0 0 * * 7-2", "2026-11-22 00:00:00, 2026-11-23 00:00:00, 2026-11-24 00:00:00, 2026-11-29 00:00:00"},
		{"0 0 * * 7/3", "2026-11-22 00:00:00, 2026-11-25 00:00:00, 2026-11-28 00:00:00"},
		{"0 0 13 * 5", "2026-11-27 00:00:00, 2026-12-04 00:00:00, 2026-12-11 00:00:00, 2026-12-13 00:00:00"},
		{"0 0 1 * *", "2026-12-01 00:00:00, 2027-01-01 00:00:00"},
		{"0 0 31 * *", "2026-12-31 00:00:00, 2027-01-31 00:00:00, 2027-03-31 00:00:00"},
		{"0 0 29 2 *", "2028-02-29 00:00:00, 2032-02-29 00:00:00"},
		{"0 0 L * *", "2026-11-30 00:00:00, 2026-12-31 00:00:00, 2027-01-31 00:00:00, 2027-02-28 00:00:00"},
		{"0 0 l 2 *", "2027-02-28 00:00:00, 2028-02-29 00:00:00"},
		{"0 0 L-3 * *", "2026-11-27 00:00:00, 2026-12-28 00:00:00"},
		{"0 0 L-30 * *", "2026-12-01 00:00:00, 2027-01-01 00:00:00, 2027-03-01 00:00:00"},
		{"0 0 15W * *", "2026-12-15 00:00:00, 2027-01-15 00:00:00, 2027-02-15 00:00:00"},
		{"0 0 15W 5,8 *", "2027-05-14 00:00:00, 2027-08-16 00:00:00"}, // a Saturday and a Sunday
		{"0 0 1W 5 *", "2027-05-03 00:00:00"},                         // Saturday the 1st: not in April
		{"0 0 31W 1,2 *", "2027-01-29 00:00:00, 2028-01-31 00:00:00"}, // Sunday the 31st: not in February
		{"0 0 LW * *", "2026-11-30 00:00:00, 2026-12-31 00:00:00, 2027-01-29 00:00:00, 2027-02-26 00:00:00"},
		{"0 0 1,L,15W 12 *", "2026-12-01 00:00:00, 2026-12-15 00:00:00, 2026-12-31 00:00:00, 2027-12-01 00:00:00"},
		{"0 0 * * 5L", "2026-11-27 00:00:00, 2026-12-25 00:00:00, 2027-01-29 00:00:00"},
		{"0 0 * * FRIL", "2026-11-27 00:00:00, 2026-12-25 00:00:00"},
		{"0 0 * * 7L", "2026-11-29 00:00:00, 2026-12-27 00:00:00"},
		{"0 0 * * 5#2", "2026-12-11 00:00:00, 2027-01-08 00:00:00"},
		{"0 0 * * fri#5", "2027-01-29 00:00:00, 2027-04-30 00:00:00"},
		{"0 0 * * MON,5#2", "2026-11-23 00:00:00, 2026-11-30 00:00:00, 2026-12-07 00:00:00, 2026-12-11 00:00:00"},
		{"0 0 0 1 1 * 2030", "2030-01-01 00:00:00, never"},
		{"0 0 0 1 1 * 2027-2031/2", "2027-01-01 00:00:00, 2029-01-01 00:00:00, 2031-01-01 00:00:00, never"},
		{"0 0 0 29 2 ? *", "2028-02-29 00:00:00"},
		{"@yearly", "2027-01-01 00:00:00, 2028-01-01 00:00:00"},
		{"@annually", "2027-01-01 00:00:00"},
		{"@monthly", "2026-12-01 00:00:00"},
		{"@weekly", "2026-11-22 00:00:00, 2026-11-29 00:00:00"},
		{"@Daily", "2026-11-22 00:00:00, 2026-11-23 00:00:00"},
		{"@midnight", "2026-11-22 00:00:00"},
		{"@hourly", "2026-11-21 11:00:00, 2026-11-21 12:00:00"},
	} {
		e, err := parseExpression(c.text, "default:a")
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var got []string
		wall := time.Date(2026, 11, 21, 10, 30, 15, 0, time.UTC).Unix()
		for range strings.Count(c.want, ",") + 1 {
			next, ok := e.next(wall)
			if !ok {
				got = append(got, "never")
				break
			}
			wall = next
			got = append(got, time.Unix(wall, 0).UTC().Format(time.DateTime))
			if !e.matches(wall) {
				t.Errorf("%s: does not match its own %s", c.text, got[len(got)-1])
			}
		}
		if list := strings.Join(got, ", "); list != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.text, list, c.want)
		}
	}
}

func TestExpression_RefusesWhatIsInvalidWithTheReason(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "is empty",
		"   ":                                   "is empty",
		"* * * *":                               "has 4 fields; write 5",
		"* * * * * * * *":                       "has 8 fields",
		"60 * * * *":                            "minute: 60 is more than 59",
		"* 25 * * *":                            "hour: 25 is more than 23",
		"* * 0 * *":                             "day of month: 0 is less than 1",
		"* * 32 * *":                            "day of month: 32 is more than 31",
		"* * * 13 *":                            "month: 13 is more than 12",
		"* * * * 8":                             "day of week: 8 is more than 7",
		"0 12 * * ? 2027":                       "day of week: 2027 is more than 7; the first of six fields is the second here; in AWS, it is the minute, and the last is the year: then put a 0 in front",
		"0 12 ? * MON-FRI *":                    "in AWS, it is the minute",
		"0 12 * * 2027 ?":                       "month: 2027 is more than 12",
		"61 * * * * *":                          "second: 61 is more than 59",
		"0 0 0 1 1 * 1969":                      "year: 1969 is less than 1970",
		"0 0 0 1 1 * 2100":                      "year: 2100 is more than 2099",
		", * * * *":                             "minute: the list has an empty item; write values",
		"1,,2 * * * *":                          "minute: the list has an empty item; write values",
		"1, 2 * * *":                            "minute: the list has an empty item; write values",
		"1,2, * * * *":                          "minute: the list has an empty item; write values",
		"-5 * * * *":                            `minute: "" is invalid`,
		"+5 * * * *":                            `minute: "+5" is invalid; write 0 to 59`,
		"5- * * * *":                            `minute: "" is invalid`,
		"1-2-3 * * * *":                         `minute: "2-3" is invalid`,
		"*/0 * * * *":                           "minute: the step is 0; it must be at least 1",
		"*/ * * * *":                            `minute: the step "" is invalid; write 1 to 60`,
		"*/5/5 * * * *":                         `minute: the step "5/5" is invalid; write 1 to 60`,
		"*/90 * * * *":                          "minute: the step 90 is more than 60, the number of values",
		"** * * * *":                            `minute: "**" is invalid`,
		"*-5 * * * *":                           `minute: "*" is invalid`,
		"99999999999999999999 * * * *":          `minute: "99999999999999999999" is invalid`,
		"0 22-2 * * *":                          "hour: the range 22-2 ends before it begins; write 22-23,0-2",
		"* * * FOO *":                           `month: "FOO" is invalid; write 1 to 12 or JAN to DEC`,
		"* * * ANF *":                           `month: "ANF" is invalid`, // within JANFEB
		"* * * * MONDAY":                        `day of week: "MONDAY" is invalid; write 0 to 7, SUN to SAT, 5L or 5#2`,
		"* * * * L":                             "day of week: a weekday must stand before L",
		"* * * * 5#6":                           `day of week: "5#6" is invalid; write #1 to #5`,
		"* * * * 5#0":                           `write #1 to #5`,
		"* * * * #2":                            `day of week: "" is invalid`,
		"* * * * 9L":                            "day of week: 9 is more than 7",
		"* * * * 15W":                           `day of week: "15W" is invalid`,
		"* * 5L * *":                            `day of month: "5L" is invalid; write 1 to 31, L, L-3, 15W or LW`,
		"* * L-31 * *":                          `write L, LW, or L-1 to L-30`,
		"* * L-0 * *":                           `write L, LW, or L-1 to L-30`,
		"* * L3 * *":                            `write L, LW, or L-1 to L-30`,
		"* * L-3W * *":                          `day of month: "L-3W" is invalid; W stands behind one day, or behind L alone: write 15W or LW`,
		"* * W * *":                             `day of month: "W" is invalid; W stands behind one day`,
		"* * 1-5W * *":                          `day of month: "1-5W" is invalid; W stands behind one day`,
		"* * 1-L * *":                           `day of month: "L" is invalid; write 1 to 31`,
		"* * 15W/2 * *":                         `day of month: "15W" is invalid; write 1 to 31`,
		"* * * * 1-5#2":                         `day of week: "1-5" is invalid; write 0 to 7 or SUN to SAT`,
		"* * 0W * *":                            "day of month: 0 is less than 1",
		"* * 32W * *":                           "day of month: 32 is more than 31",
		"L * * * *":                             `minute: "L" is invalid`,
		"H(0-70) * * * *":                       "minute: 70 is more than 59",
		"H(5) * * * *":                          `minute: "H(5)" is invalid; write H, H/15, H(0-29) or H(0-29)/10`,
		"H(0-29 * * * *":                        `write H, H/15, H(0-29) or H(0-29)/10`,
		"H(30-10) * * * *":                      "ends before it begins, and H chooses from a range that does not; write H(30-59) or H(0-10)",
		"0 22-2/2 * * *":                        "hour: the range 22-2 ends before it begins; write 22,0,2",
		"0 0 * * H(FRI-MON)":                    "ends before it begins, and H chooses from a range that does not; write H(5-6) or H(0-1)",
		"0 0 * JAN,NOV-FEB *":                   "month: the range NOV-FEB ends before it begins; write 11-12,1-2",
		"0 0 0 1 1 * 2030-2020":                 "year: the range 2030-2020 ends before it begins; write 2020-2030",
		"HH * * * *":                            `minute: "HH" is invalid`,
		"0 0 0 1 1 * H":                         "year: the years cannot be chosen by H; write 1970 to 2099",
		"TZ=UTC":                                "use the field timezone",
		"TZ=UTC * * * * *":                      "use the field timezone",
		"CRON_TZ=UTC * * * * *":                 "use the field timezone",
		"@every 5m":                             "use the field every",
		"@reboot":                               "@reboot is invalid; write @yearly,",
		"@":                                     "@ is invalid; write @yearly",
		"*\u00a0* * * * *":                      "is invalid; write printable ASCII characters only",
		"* * * * *\n":                           "is invalid; write printable ASCII characters only",
		"* * * * \u017fUN":                      "is invalid; write printable ASCII characters only",
		"0 0 30 2 *":                            "never ticks: the day does not exist in any of the months",
		"0 0 31 2,4,6,9,11 *":                   "never ticks",
		"0 0 31W 4 *":                           "never ticks",
		"0 0 L-30 2 *":                          "never ticks",
		"0 0 0 29 2 ? 2023,2025":                "never ticks",
		strings.Repeat("0,", 150) + "0 * * * *": "is 309 characters long, at most 200 are allowed",
	} {
		if e, err := parseExpression(text, "default:a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, e, err, want)
		}
	}
}

// A user who follows the advice has what the range would mean if it went on behind the end.
func TestField_AdvisesWhatARangeMeansAcrossTheEnd(t *testing.T) {
	t.Parallel()
	for _, f := range []field{secondField, minuteField, hourField, domField, monthField, dowField} {
		count := f.high - f.low + 1
		for low := f.low + 1; low <= f.high; low++ {
			for high := f.low; high < low; high++ {
				for _, step := range []int{1, 2, 3, count} {
					if f.isDow() && high == 0 {
						continue // that is Sunday at the end of the week
					}
					var want uint64
					for v := low; v <= high+count; v += step {
						want |= 1 << (f.low + (v-f.low)%count)
					}
					text := fmt.Sprintf("%d-%d/%d", low, high, step)
					set, _, err := f.parse(text, "", nil)
					if f.isDow() && err == nil && set == want {
						continue // it is taken as that
					}
					if err == nil {
						t.Fatalf("%s: %s is taken", f.name, text)
					}
					_, advice, _ := strings.Cut(err.Error(), "; write ")
					if got, _, err := f.parse(advice, "", nil); err != nil || got != want {
						t.Fatalf("%s: for %s it says %q, which is %b, %v; want %b", f.name, text, advice, got, err, want)
					}
				}
			}
		}
	}
}

// Where both know the language, ours and robfig's say the same.
func TestExpression_AgreesWithRobfig(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	compared := 0
	for range 3000 {
		text := randomMinute(rng) + " " + randomHour(rng) + " "
		dom, month, dow := randomDays(rng)
		text += dom + " " + month + " " + dow
		theirs, err := parser.Parse("TZ=UTC " + text)
		if err != nil {
			continue // L, W, # and 7
		}
		ours, err := parseExpression(text, "")
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		at := time.Unix(rng.Int64N(4e9), 0).UTC()
		for range 5 {
			want := theirs.Next(at)
			if want.IsZero() {
				break // it looks five years ahead only
			}
			got, ok := ours.next(at.Unix())
			if !ok || got != want.Unix() {
				t.Fatalf("%s after %s: %s, robfig %s", text, at, time.Unix(got, 0).UTC(), want)
			}
			at = want
			compared++
		}
	}
	if compared < 5000 {
		t.Errorf("compared %d ticks only", compared)
	}
}

// The hash is fixed for ever: another one would move every schedule that uses H.
func TestExpression_HIsStable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"H H * * *":          "2026-01-01 12:43:00, 2026-01-02 12:43:00",
		"H H H H H *":        "2026-11-08 12:43:12, 2027-11-08 12:43:12",
		"H(0-29)/10 * * * *": "2026-01-01 00:03:00, 2026-01-01 00:13:00",
		"H/15 * * * *":       "2026-01-01 00:13:00, 2026-01-01 00:28:00",
		"0 H(1-4) * * *":     "2026-01-01 01:00:00, 2026-01-02 01:00:00",
		"0 0 H * *":          "2026-01-08 00:00:00, 2026-02-08 00:00:00",
		"0 0 * * H":          "2026-01-07 00:00:00, 2026-01-14 00:00:00",
		"0 0 * * H(5-7)":     "2026-01-02 00:00:00, 2026-01-09 00:00:00",
	} {
		e, err := parseExpression(text, "default:nightly")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		for range 2 {
			wall, _ = e.next(wall)
			got = append(got, time.Unix(wall, 0).UTC().Format(time.DateTime))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q,", text, strings.Join(got, ", "))
		}
	}
}

func TestExpression_HSpreadsSchedules(t *testing.T) {
	t.Parallel()
	var minutes [60]int
	same := 0
	for i := range 6000 {
		name := "default:job-" + time.Duration(i).String()
		e, err := parseExpression("H H H * *", name)
		if err != nil {
			t.Fatal(err)
		}
		wall, _ := e.next(0)
		at := time.Unix(wall, 0).UTC()
		minutes[at.Minute()]++
		if at.Minute() == at.Hour() {
			same++
		}
		if e.dom&^(1<<29-2) != 0 {
			t.Fatalf("%s: a day that not every month has", name)
		}
	}
	for m, n := range minutes {
		if n < 60 || n > 140 {
			t.Errorf("minute %d has %d of 6000 schedules", m, n)
		}
	}
	if same > 200 { // 100 by chance
		t.Errorf("minute and hour are the same for %d of 6000: the fields are not independent", same)
	}
}
