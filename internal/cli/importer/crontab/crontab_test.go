package crontab

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor/shellexec"
)

// one parses a line that must be an entry.
func one(t *testing.T, line string, system bool) Entry {
	t.Helper()
	entries, refusals := Parse(line, system)
	if len(entries) != 1 || len(refusals) > 0 {
		t.Fatalf("%q: got %+v and %+v", line, entries, refusals)
	}
	return entries[0]
}

func TestParse_ReadsVariablesForTheLinesBelowThem(t *testing.T) {
	t.Parallel()
	entries, refusals := Parse(strings.Join([]string{
		"# a comment", "", "  \t", "@daily a", "SHELL=/bin/bash", `MAILTO = "ops@example.com" `, "PATH='/opt/bin: /bin'", ` "NAME" =a b  `, "EMPTY=",
		"CRON_TZ=Europe/Berlin", "\t@hourly b # no comment", "MAILTO=\"\"", "CRON_TZ=UTC", "@weekly c=1\r",
	}, "\n"), false)
	env := map[string]string{"PATH": "/opt/bin: /bin", "NAME": "a b", "EMPTY": ""}
	want := []Entry{
		{Line: 4, When: "@daily", Command: "a", Env: map[string]string{}},
		{Line: 11, When: "@hourly", Command: "b # no comment", Env: env, Shell: "/bin/bash", MailTo: "ops@example.com", Zone: "Europe/Berlin"},
		{Line: 14, When: "@weekly", Command: "c=1", Env: env, Shell: "/bin/bash", Zone: "UTC"},
	}
	if diff := cmp.Diff(want, entries); diff != "" || len(refusals) > 0 {
		t.Errorf("refused %v (-want +got):\n%s", refusals, diff)
	}
}

func TestParse_ReadsTheColumnOfTheUserInTheSystemsCrontab(t *testing.T) {
	t.Parallel()
	if e := one(t, "17 * * * *\troot   cd / && run-parts /etc/cron.hourly", true); e.User != "root" || e.Command != "cd / && run-parts /etc/cron.hourly" {
		t.Errorf("got %+v", e)
	}
	if e := one(t, "@daily www-data /opt/clean", true); e.User != "www-data" || e.Command != "/opt/clean" {
		t.Errorf("got %+v", e)
	}
}

func TestParse_EndsACommandAtAPercentSign(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][2]string{
		"date +\\%F":          {"date +%F", ""},
		"mail a%Hello,%%you.": {"mail a", "Hello,\n\nyou.\n"},
		"cat%100\\% done%":    {"cat", "100% done\n"},
		"cat%":                {"cat", ""},
		`printf 'a\b'`:        {`printf 'a\b'`, ""},
		`cat C:\\%%hello`:     {`cat C:\\`, "\nhello\n"},
		`a \\\%b`:             {`a \\%b`, ""},
		`a \\\\%b`:            {`a \\\\`, "b\n"},
		`a%b\\%c\%`:           {"a", "b\\%c%\n"},
		`a \`:                 {`a \`, ""},
	} {
		if e := one(t, "0 0 * * * "+line, false); e.Command != want[0] || e.Stdin != want[1] {
			t.Errorf("%q: got %q and %q", line, e.Command, e.Stdin)
		}
	}
}

func TestParse_SpreadsLinesBelowARandomDelay(t *testing.T) {
	t.Parallel()
	entries, refusals := Parse(strings.Join([]string{
		"@daily a", "RANDOM_DELAY=45", "@daily b", "RANDOM_DELAY = \"5\"", "@daily c", "RANDOM_DELAY=x", "@daily d",
		"RANDOM_DELAY=1441", "RANDOM_DELAY=-1", "RANDOM_DELAY=0", "@daily e",
	}, "\n"), false)
	var got []string
	for _, e := range entries {
		got = append(got, e.Command+" "+e.Delay.String())
	}
	if want := "a 0s, b 45m0s, c 5m0s, d 0s, e 0s"; strings.Join(got, ", ") != want || len(refusals) != 3 {
		t.Fatalf("got %q, %v", got, refusals)
	}
	const why = `RANDOM_DELAY: "x" must be 0 to 1440 minutes; the lines below are taken without it`
	if refusals[0] != (Refusal{Line: 6, Reason: why}) {
		t.Errorf("refused: %+v", refusals[0])
	}
}

func TestParse_RefusesALineByItself(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"@reboot x":             "@reboot has no counterpart",
		"@every_minute x":       "@every_minute is not known",
		"0 0 * *":               "has 4 of the 5 columns",
		"0 0 * * *":             "has no command",
		"0 0 * * * %in":         "has no command",
		"60 * * * * x":          `minute: "60" must be 0 to 59`,
		"* 24 * * * x":          `hour: "24" must be 0 to 23`,
		"* * 0 * * x":           `day of month: "0" must be 1 to 31`,
		"* * * 13 * x":          `month: "13" must be 1 to 12, or jan to dec`,
		"* * * * 8 x":           `day of week: "8" must be 0 to 7, or sun to sat`,
		"* * * foo * x":         `month: "foo" must be`,
		"5-1 * * * * x":         "ends before it begins",
		"*/0 * * * * x":         "a step must be at least 1",
		"5/10 * * * * x":        "a step behind a single value",
		"0~30 * * * * x":        "is random",
		", * * * * x":           "is not a value",
		"* * L * * x":           `day of month: "L" must be`,
		"H * * * * x":           `minute: "H" must be`,
		"2x=3":                  "is not the name of a variable",
		"0 0 * * * x\x00":       "contains a NUL",
		"0 0 * * 1-5,*/0 x":     "a step must be at least 1",
		"* * * * 99999999999 x": "must be 0 to 7",
		"0 0 * * * caf\xe9":     "is not UTF-8: convert the crontab, as with iconv",
		"DTS_TASK_ID=x":         "DTS_TASK_ID is set by DTS",
		"'DTS_TICK' = x":        "DTS_TICK is set by DTS",
	} {
		entries, refusals := Parse(line+"\n@daily next", false)
		if len(refusals) != 1 || !strings.Contains(refusals[0].Reason, want) || refusals[0].Line != 1 || len(entries) != 1 || entries[0].Line != 2 {
			t.Errorf("%q: got %+v and %+v", line, entries, refusals)
		}
	}
	if _, refusals := Parse("@daily\n0 0 * * *", true); len(refusals) != 2 || refusals[0].Reason != "has no user and no command" {
		t.Errorf("got %+v", refusals)
	}
}

func TestParse_LeavesNoVariableOfDTSToTheLinesBelow(t *testing.T) {
	t.Parallel()
	entries, _ := Parse("DTS_TASK_ID=x\nDTS_OTHER=y\n@daily a", false)
	if len(entries) != 1 || !maps.Equal(entries[0].Env, map[string]string{"DTS_OTHER": "y"}) {
		t.Errorf("got %+v", entries)
	}
}

// The executor refuses each of the variables, so that a schedule with it would never run.
func TestParse_RefusesTheVariablesThatTheShellExecutorRefuses(t *testing.T) {
	t.Parallel()
	shell := shellexec.Describe()
	for _, name := range append([]string{"OTHER"}, ownVariables...) {
		payload, err := json.Marshal(map[string]any{"command": []string{"x"}, "env": map[string]string{name: "y"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := shell.CheckPayload(t.Context(), payload); (err != nil) != (name != "OTHER") {
			t.Errorf("%s: the executor says %v", name, err)
		}
	}
}

func TestParse_RefusesLinesBelowAVariableThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	entries, refusals := Parse("DIR=/caf\xe9\n@daily a\nDIR=/tea\n@daily b # caf\xc3\xa9\n# caf\xe9", false)
	if len(entries) != 1 || entries[0].Line != 4 || len(refusals) != 2 || refusals[0].Line != 1 || refusals[1] != (Refusal{Line: 2, Reason: "the variable DIR above it is not UTF-8"}) {
		t.Errorf("got %+v and %+v", entries, refusals)
	}
}

func TestParse_StripsAByteOrderMark(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\ufeff@daily a", "\ufeffA=b\n@daily a", "\ufeff# comment\n@daily a"} {
		if entries, refusals := Parse(text, false); len(entries) != 1 || len(refusals) > 0 {
			t.Errorf("%q: got %+v and %+v", text, entries, refusals)
		}
	}
}

// cronDay says whether cron runs a line on a day, written anew from the manual of cron: the columns of days both count if either begins with
// a *, and else one of them is enough.
func cronDay(dom, dow string, day time.Time) bool {
	fits := func(list string, n, low, high int) bool {
		for text := range strings.SplitSeq(list, ",") {
			v, err := column{low: low, high: high, names: columns[4].names}.parse(text)
			if err == nil && n >= v.low && n <= v.high && (n-v.low)%v.step == 0 {
				return true
			}
		}
		return false
	}
	onDate := fits(dom, day.Day(), 1, 31)
	onDay := fits(dow, int(day.Weekday()), 0, 7) || day.Weekday() == time.Sunday && fits(dow, 7, 0, 7)
	if dom[0] == '*' || dow[0] == '*' {
		return onDate && onDay
	}
	return onDate || onDay
}

func TestParse_KeepsHowCronCombinesTheColumnsOfDays(t *testing.T) {
	t.Parallel()
	begin := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, dom := range strings.Fields("* */1 */2 1 13 1-7 1,15 */10,5 *,5 5,*/10 1-31") {
		for _, dow := range strings.Fields("* */2 */7 1 mon FRI-7 0,6 0-7 5,*/3 *,2 */3,1 7") {
			e := one(t, "30 6 "+dom+" * "+dow+" x", false)
			table, err := schedule.Compile(schedule.Spec{
				Rules: []schedule.Rule{{Cron: e.When}}, Exclude: e.Exclude, Timezone: "UTC",
			}, task.Ref{Namespace: "default", ID: "a"}, begin)
			if err != nil {
				t.Fatalf("%s %s: %v", dom, dow, err)
			}
			want, got := map[string]bool{}, map[string]bool{}
			for day := begin; day.Before(begin.AddDate(0, 4, 0)); day = day.AddDate(0, 0, 1) {
				if cronDay(dom, dow, day) {
					want[day.Format(time.DateOnly)] = true
				}
				if tick, ok := table.Next(day); ok && !tick.Excluded && tick.At.Before(day.AddDate(0, 0, 1)) {
					got[day.Format(time.DateOnly)] = true
				}
			}
			if !maps.Equal(want, got) {
				t.Errorf("%s * %s, as %q without %q: cron runs on %d days, DTS on %d", dom, dow, e.When, e.Exclude, len(want), len(got))
			}
		}
	}
}

// Whatever is in the file: no panic, each line is told of once at most and in order, and what is accepted has a time and a command.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "# a", "A=b\n@daily x", "0 0 */2 * mon x%y\\%", "17 * * * * root cd /", "-*/5 * * * * x", "@", "=", "\"a\" = 'b'", "@reboot", "a=\"", "* * * * * ",
		"1-5/2,*/3 0 1 jan sun-7 x", "\x00", "@daily\t", "* * * * */9223372036854775807 x", "* * */2 * 0-7 x", "é=ü", "\r\n\r", "A=\xe9\n@daily x", "\ufeff@daily \xe9",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, system bool) {
		entries, refusals := Parse(text, system)
		lines := strings.Count(text, "\n") + 1
		told := map[int]bool{}
		tell := func(line int) {
			if line < 1 || line > lines || told[line] {
				t.Errorf("line %d of %d is told of twice, or is none", line, lines)
			}
			told[line] = true
		}
		for _, r := range refusals {
			if tell(r.Line); r.Reason == "" {
				t.Errorf("line %d is refused without a reason", r.Line)
			}
		}
		for _, e := range entries {
			for _, sent := range append(slices.Collect(maps.Values(e.Env)), e.Command, e.Stdin, e.User, e.Shell, e.MailTo) {
				if !utf8.ValidString(sent) {
					t.Errorf("line %d became %q, which is not UTF-8", e.Line, sent)
				}
			}
			if tell(e.Line); e.When == "" || strings.TrimSpace(e.Command) == "" || system != (e.User != "") {
				t.Errorf("line %d became %+v", e.Line, e)
			}
		}
	})
}
