package page

import (
	"net/http"
	"strings"
	"testing"
)

// evil is text that would do harm if it were taken for more: it has tags, quotes and a right-to-left override.
const evil = `<script>window.harmed=1</script><img src=x onerror="window.harmed=1">'"&amp; ` + "\u202egnp.exe 😀 日本"

// hostile has text from outside in every field of tasks and schedules, as long as it may be.
func (n *node) hostile() (longest string) {
	n.t.Helper()
	longest = strings.Repeat("x", 192) + ".the-end"
	n.shell(longest, "", fields{
		"owner": evil, "labels": fields{"order": evil, strings.Repeat("l", 60): strings.Repeat("v", 200)},
		"payload": fields{
			"command": []string{"sh", "-c", `printf '%s\n' "$TEXT" "$TEXT" >&2; printf '\001\033[31m\377\376\000bin\n'; exit 3`},
			"env":     fields{"TEXT": evil},
		},
	})
	n.shell("large", "exit 3", fields{"payload": fields{
		"command": []string{"true"}, "env": fields{"EVIL": evil, "LARGE": strings.Repeat("<b>", 80<<10)},
	}})
	n.send(http.MethodPut, "/v1/schedules/"+longestSchedule, fields{
		"every": "1h", "description": evil, "owner": evil, "labels": fields{"order": evil},
		"task": fields{"type": "shell", "payload": fields{"command": []string{"true"}}},
	})
	n.awaitState(longest, "failed")
	return longest
}

// longestSchedule is the id of a schedule that has hostile text in every field.
var longestSchedule = strings.Repeat("s", 150) + ".the-end"

// Whatever text comes from outside is shown as text, and breaks no page.
func pagesShowHostileText(t *testing.T, n *node) {
	longest := n.hostile()
	b := n.openTab()
	for _, page := range []struct {
		path  string
		shows []string
	}{
		{"/", nil},
		{"/tasks", []string{longest}},
		{"/tasks?owner=%3Cscript%3E&error=%22%3E%3Cimg%20src%3Dx%3E", nil},
		{"/tasks/default/" + longest, []string{longest, "<script>window.harmed=1</script>", "😀 日本", "gnp.exe"}},
		{"/tasks/default/large", []string{"<b><b>"}},
		{"/schedules", []string{longestSchedule, "<script>window.harmed=1</script>"}},
		{"/schedules/default/" + longestSchedule, []string{longestSchedule, "<script>window.harmed=1</script>", "gnp.exe"}},
		{"/schedules/default/" + longestSchedule + "/edit", nil},
		{"/schedules/default/" + longestSchedule + "/delete", []string{longestSchedule}},
		{"/schedules?owner=%3Cscript%3E&label=%22%3E%3Cimg%20src%3Dx%3E", nil},
	} {
		b.open(page.path)
		for _, width := range []int64{1440, 390} {
			b.look(width, "light")
			if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > int(width) {
				t.Errorf("%.60s is %d pixels wide, on a screen of %d", page.path, wide, width)
			}
		}
		main := b.text("main")
		for _, text := range page.shows {
			if !strings.Contains(strings.ReplaceAll(main, "\n", ""), text) {
				t.Errorf("%.60s does not show %q: %.3000s", page.path, text, main)
			}
		}
		if eval[bool](b, `"harmed" in window || document.querySelector("main script, main img") !== null`) {
			t.Errorf("%.60s takes text for more", page.path)
		}
		b.expectNoProblem(page.path)
	}
}
