package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/url"
	"strings"
)

// action is something that a form does. A form that is sent again, also to another node, does nothing twice: the action
// goes by the key of the form, by the state, the revision or the end that its reader has seen, or it sets what was set
// before.
type action struct {
	path string // of Echo, of a POST
	// do does it, and says where its result is. It returns the zero result to show the form again, as after a check.
	do func(ctx context.Context, v *visit, form url.Values) (result, error)
	// says is what the page then says, by the key that the result has. "%d" stands for its number.
	says sentencesByKey
	// form is the path of Echo of the page that has the form, and shows it again if it was refused. "": the path of the
	// action.
	form string
}

// sentencesByKey maps a value of ?said= to its sentence. Keys are unique.
type sentencesByKey map[string]string

// result is where a reader finds what an action has done, and what it was. The zero value: it has done nothing.
type result struct {
	path string // of a page, with its query
	said string // the key of the sentence that says it
	n    int    // the number in it; 0 for none
}

// Paths of pages with several forms.
const (
	taskPath  = "/tasks/:namespace/:id"
	queuePath = "/queues/:name"
)

// actions are what forms do. Their functions are in the files of their pages.
var actions = []*action{
	{path: "/tasks/:namespace/:id/retry", do: retryTask, form: taskPath, says: sentencesByKey{
		"retried": "The task was retried.",
	}},
	{path: "/tasks/:namespace/:id/cancel", do: cancelTask, form: taskPath, says: sentencesByKey{
		"cancelled": "The task is cancelled, or is asked to stop.",
	}},
	{path: "/tasks/:namespace/:id/queue", do: moveTask, form: taskPath, says: sentencesByKey{
		"moved": "The task is in another queue.",
	}},
	{path: "/tasks/:namespace/:id/now", do: runTaskNow, form: taskPath, says: sentencesByKey{
		"due": "The task was made due now.",
	}},
	{path: "/submit", do: submitTask, says: sentencesByKey{
		"submitted":    "The task is submitted.",
		"there-before": "A task with this id and content was there before: nothing is new.",
		"existing":     "Nothing is new: this task has the same key, and has not ended.",
		"replaced":     "This task waits, and is now what was submitted.",
		"skipped":      "Nothing is new: this task with the same key was due a short time ago.",
	}},
	{path: "/bulk/new/:do", do: startBulk, says: sentencesByKey{
		"bulk-started": "It has begun. It goes on if you leave this page.",
	}},
	{path: "/bulk/:id/stop", do: stopBulk, form: "/bulk/:id", says: sentencesByKey{
		"bulk-stopped": "It stops with the tasks at hand. What was changed stays so.",
	}},
	{path: "/queues/:name/pause", do: pauseQueue, form: queuePath, says: sentencesByKey{
		"queue-paused": "The queue is paused: workers take nothing from it.",
	}},
	{path: "/queues/:name/resume", do: resumeQueue, form: queuePath, says: sentencesByKey{
		"queue-resumed": "The queue is resumed: workers take tasks from it.",
	}},
	{path: "/queues/:name/capacity", do: setCapacity, form: queuePath, says: sentencesByKey{
		"queue-capacity":    "The capacity is set. Other nodes know it after a second.",
		"queue-no-capacity": "Any number of tasks may wait. Other nodes know it after a second.",
	}},
	{path: "/schedules/new", do: putSchedule, says: revisionInForce},
	{path: "/schedules/:namespace/:id/edit", do: putSchedule, says: revisionInForce},
	{path: "/schedules/:namespace/:id/trigger", do: triggerSchedule, says: sentencesByKey{
		"triggered": "The schedule was triggered. This is the task of that run.",
		"waits":     "The schedule was triggered. The run waits until the task before it has ended.",
	}},
	{path: "/schedules/:namespace/:id/pause", do: pauseSchedule, says: sentencesByKey{
		"paused": "The schedule is paused.",
	}},
	{path: "/schedules/:namespace/:id/resume", do: resumeSchedule, says: sentencesByKey{
		"resumed": "The schedule is resumed.",
	}},
	{path: "/schedules/:namespace/:id/delete", do: deleteSchedule, says: sentencesByKey{
		"deleted": "The schedule is deleted.",
	}},
	{path: "/schedules/:namespace/:id/rollback", do: rollBackSchedule, says: sentencesByKey{
		"rolledback": "The definition of revision %d is in force again.",
	}},
	{path: "/schedules/:namespace/:id/backfill", do: backfillSchedule, says: sentencesByKey{
		"backfilled": "%d tasks were created. The ledger has them.",
	}},
}

var revisionInForce = sentencesByKey{"put": "Revision %d is in force."}

// Said is what the last action has done; "" if the page is shown for another reason, as from a link of somebody else.
func (v *visit) Said() template.HTML {
	done := result{v.path, v.query.Get("said"), v.number("n")}
	if v.token == "" || v.query.Get("mark") != done.mark(v.token) {
		return ""
	}
	for _, a := range actions {
		text := a.says[done.said]
		switch {
		case strings.Contains(text, "%d"):
			return v.translated(text, done.n)
		case text != "":
			return v.translated(text)
		}
	}
	return ""
}

// saidParameters are the parameters that an action adds to the address of its result.
var saidParameters = []string{"said", "n", "mark"}

// mark shows that the action was that of a reader, whose token nobody else knows.
func (r result) mark(token string) string {
	path, _, _ := strings.Cut(r.path, "?")
	sum := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(sum, "%s %s %d", path, r.said, r.n)
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// address is where the result is shown to the reader with a token.
func (r result) address(token string) string {
	query := url.Values{"said": {r.said}, "mark": {r.mark(token)}}
	if r.n != 0 {
		query.Set("n", itoa(r.n))
	}
	separator := "?"
	if strings.Contains(r.path, "?") {
		separator = "&"
	}
	return r.path + separator + query.Encode()
}
