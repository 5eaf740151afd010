package test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// commandPages are the pages whose commands and submissions are tried, and how many of them each page has at least.
var commandPages = map[string]int{"../docs/limits.md": 14, "../docs/routing.md": 5}

var (
	pageCommand    = regexp.MustCompile(`(?m)^dtsctl (.+)$`)
	pageSubmission = regexp.MustCompile("(?s)```json\n(.*?)```")
)

// A fleet takes the commands and the submissions of the pages about limits and routes. Its tasks never run.
func TestDocs_CommandsAreTaken(t *testing.T) {
	t.Parallel()
	q := &questioned{t: t, front: startNode(t, redistest.Start(t).URL(), "--roles", "scheduler,api")}
	await(t, 30*time.Second, "limits are accepted", func() bool {
		return !strings.Contains(q.print("dtsctl limit set all --slots 9"), "dtsctl:")
	})
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format("2006-01-02 15:04")
	for page, least := range commandPages {
		text, err := os.ReadFile(page)
		testkit.Must(t, err)
		tried := 0
		for _, m := range pageCommand.FindAllStringSubmatch(string(text), -1) {
			q.do(strings.ReplaceAll(m[1], "2026-12-24 06:00", tomorrow)) // which is past some day
			tried++
		}
		for _, m := range pageSubmission.FindAllStringSubmatch(string(text), -1) {
			answer, err := q.front.SubmitTaskWithBodyWithResponse(t.Context(), nil, "application/json", strings.NewReader(m[1]))
			testkit.Must(t, err)
			if answer.JSON201 == nil {
				t.Errorf("%s: %s is answered by %s", page, m[1], answer.Body)
			}
			tried++
		}
		if tried < least {
			t.Errorf("%s has %d commands and submissions, want at least %d", page, tried, least)
		}
	}
}
