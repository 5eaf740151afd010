package importer

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// idsOf are the ids of the lines of a crontab that are not refused.
func idsOf(t *testing.T, text string) (ids []string) {
	t.Helper()
	lines, err := convert(text, false, settings{Timezone: "UTC", Overlap: "allow"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if line.outcome != refused {
			ids = append(ids, line.id)
		}
	}
	return ids
}

func TestConvert_NamesALineByWhatItRuns(t *testing.T) {
	alone := idsOf(t, "@daily /opt/b.sh")
	if !regexp.MustCompile(`^b\.sh-[0-9a-f]{12}$`).MatchString(alone[0]) {
		t.Errorf("the id is %q", alone[0])
	}
	for why, text := range map[string]string{
		"a new time":                      "@hourly /opt/b.sh",
		"a new zone and owner":            "CRON_TZ=Asia/Tokyo\nMAILTO=ops\n@daily /opt/b.sh",
		"the shell that is cron's own":    "SHELL=/bin/sh\n@daily /opt/b.sh",
		"a line with the same name":       "@daily /opt/b.sh\n@daily /srv/b.sh",
		"the same at another time, below": "@daily /opt/b.sh\n@hourly /opt/b.sh",
	} {
		if got := idsOf(t, text); got[0] != alone[0] {
			t.Errorf("%s makes the id %s of %s", why, got[0], alone[0])
		}
	}
	for what, text := range map[string]string{
		"command": "@daily /srv/b.sh", "stdin": "@daily /opt/b.sh%in", "shell": "SHELL=/bin/bash\n@daily /opt/b.sh", "environment": "A=b\n@daily /opt/b.sh",
	} {
		if got := idsOf(t, text); got[0] == alone[0] {
			t.Errorf("another %s has the same id %s", what, got[0])
		}
	}
}

func TestConvert_NumbersLinesThatRunTheSame(t *testing.T) {
	first := idsOf(t, "@daily b")[0]
	if got, want := idsOf(t, "@daily b\n@hourly b\n@daily b\nMAILTO=ops\n@daily b\n"), []string{first, first + "-2", first + "-3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConvert_KeepsLinesThatDifferByTheirVariablesOnly(t *testing.T) {
	if got := idsOf(t, "A=1\n@daily b\nA=2\n@daily b\nSHELL=/bin/bash\n@daily b"); len(slices.Compact(slices.Sorted(slices.Values(got)))) != 3 {
		t.Errorf("three lines became %q", got)
	}
}

func TestReadable_NamesACommandByItsFirstWords(t *testing.T) {
	for line, want := range map[string]string{
		"/opt/backup.sh --full >> /var/log/backup.log 2>&1":  "backup.sh-full",
		"cd /srv/app && ./bin/report --kind=weekly | mail x": "report-kind-weekly",
		"[ -x /usr/sbin/logrotate ] && logrotate":            "x-logrotate",
		"FOO=/a/b PHP artisan schedule:run":                  "foo-b-php-artisan-schedule-run",
		"> x":                                                "command",
		strings.Repeat("long ", 40):                          strings.TrimSuffix(strings.Repeat("long-", 12), "-"),
	} {
		if got := readable(line); got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
}
