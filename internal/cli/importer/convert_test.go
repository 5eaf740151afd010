package importer

import (
	"strings"
	"testing"
)

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
