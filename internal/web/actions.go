package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// action is something that a form does. A form that is sent again, also to another node, does nothing twice: the action
// goes by the key of the form, by the state, the revision or the end that its reader has seen, or it sets what was set
// before.
type action struct {
	path string // of Echo, of a POST
	// do does it, and says where its result is. It returns the zero result to show the form again, as after a check.
	do func(ctx context.Context, v *visit, form url.Values) (result, error)
	// says is what the page then says, by the key that the result has: what was done and when, in words that stay true.
	// "%d" stands for the number of the result, and "%s" for the time.
	says sentencesByKey
	// form is the path of Echo of the page that has the form, and shows it again if it was refused. "": the path of the
	// action.
	form string
}

// sentencesByKey maps a value of ?said= to its sentence. Keys are unique.
type sentencesByKey map[string]string

// notDone says of an action, by the end of its path, that it was refused for what somebody else has done.
var notDone = sentencesByKey{
	"retry": "Not retried.", "cancel": "Not cancelled.", "queue": "Not moved.", "move": "Not moved.",
	"now": "Not made due.",
	":do": "Not started.", "stop": "Not stopped.", "pause": "Not paused.", "resume": "Not resumed.",
	"capacity": "Not set.", "new": "Not put.", "edit": "Not put.", "trigger": "Not triggered.",
	"rerun": "Not run again.", "run": "Not started.", "delete": "Not deleted.", "rollback": "Not rolled back.",
	"set": "Not set.", "backfill": "No task was created.", "cordon": "Not cordoned.", "uncordon": "Not uncordoned.",
	"approve": "Not approved.", "reject": "Not rejected.", "signal": "Not given.",
}

// result is where a reader finds what an action has done, and what it was. The zero value: it has done nothing.
type result struct {
	path string // of a page, with its query
	said string // the key of the sentence that says it
	n    int    // the number in it; 0 for none
	at   int64  // the time in it, in ms; 0 for that of the end of the action
	// What act adds: when the action ended, in ms, and whether its form was sent again, which did nothing.
	ended int64
	twice bool
}

// Paths of pages with several forms.
const (
	taskPath  = "/tasks/:namespace/:id"
	queuePath = "/queues/:name"
	limitPath = "/limits/:name"
	nodesPath = "/nodes"
	runPath   = "/runs/:namespace/:id"
)

// actions are what forms do. Their functions are in the files of their pages.
var actions = []*action{
	{path: "/tasks/:namespace/:id/retry", do: retryTask, form: taskPath, says: sentencesByKey{
		"retried": "The task was retried at %s.",
	}},
	{path: "/tasks/:namespace/:id/cancel", do: cancelTask, form: taskPath, says: sentencesByKey{
		"cancelled":        "The task was cancelled, or was asked to stop, at %s.",
		"cancelled-before": "The task had been cancelled, or asked to stop, already at %s, as shown below.",
		"cancelled-before-note": "The task had been cancelled, or asked to stop, already at %s, as shown below. " +
			"Your note was not kept.",
	}},
	{path: "/tasks/:namespace/:id/queue", do: moveTask, form: taskPath, says: sentencesByKey{
		"moved": "The task was moved at %s.",
	}},
	{path: "/tasks/:namespace/:id/move", do: askToMove, form: taskPath, says: sentencesByKey{
		"asked-to-move": "Its worker was asked at %s to give it up.",
	}},
	{path: "/tasks/:namespace/:id/now", do: runTaskNow, form: taskPath, says: sentencesByKey{
		"due": "The task was made due at %s.",
	}},
	{path: "/runs/:namespace/:id/pause", do: pauseRun, form: runPath, says: sentencesByKey{
		"run-paused": "The run was asked to pause at %s.",
	}},
	{path: "/runs/:namespace/:id/resume", do: resumeRun, form: runPath, says: sentencesByKey{
		"run-resumed": "The run was asked to go on at %s.",
	}},
	{path: "/runs/:namespace/:id/cancel", do: cancelRun, form: runPath, says: sentencesByKey{
		"run-cancelled":        "The run was cancelled, or was asked to stop, at %s.",
		"run-cancelled-before": "The run had been cancelled, or asked to stop, already at %s, as shown below.",
		"run-cancelled-before-note": "The run had been cancelled, or asked to stop, already at %s, as shown below. " +
			"Your note was not kept.",
	}},
	{path: "/runs/:namespace/:id/rerun", do: rerunRun, form: runPath, says: sentencesByKey{
		"run-again": "The run was begun again at %s.",
	}},
	{path: "/runs/:namespace/:id/signal", do: signalRun, form: runPath, says: sentencesByKey{
		"run-signalled": "The signal was given at %s.",
	}},
	{path: "/runs/:namespace/:id/steps/:step/approve", do: approveStep, form: runPath, says: sentencesByKey{
		"step-approved": "The step was approved at %s.",
	}},
	{path: "/runs/:namespace/:id/steps/:step/reject", do: rejectStep, form: runPath, says: sentencesByKey{
		"step-rejected": "The step was rejected at %s.",
	}},
	{path: newWorkflowPath, do: putWorkflow, says: revisionPut},
	{path: "/workflows/:namespace/:id/edit", do: putWorkflow, says: revisionPut},
	{path: "/workflows/:namespace/:id/run", do: startWorkflow, says: sentencesByKey{
		"run-started":      "The run was submitted at %s.",
		"run-there-before": "At %s, this run was there before, with this content: no new one was created.",
	}},
	{path: "/workflows/:namespace/:id/pause", do: pauseWorkflow, says: sentencesByKey{
		"workflow-paused": "The workflow was paused at %s.",
	}},
	{path: "/workflows/:namespace/:id/resume", do: resumeWorkflow, says: sentencesByKey{
		"workflow-resumed": "The workflow was resumed at %s.",
	}},
	{path: "/workflows/:namespace/:id/rollback", do: rollBackWorkflow, says: sentencesByKey{
		"workflow-rolledback": "Revision %d of the workflow was put again at %s.",
	}},
	{path: "/workflows/:namespace/:id/delete", do: deleteWorkflow, says: sentencesByKey{
		"workflow-deleted": "The workflow was deleted at %s.",
		"workflow-gone":    "The workflow was gone already at %s.",
	}},
	{path: "/submit", do: submitTask, says: sentencesByKey{
		"submitted":    "The task was submitted at %s.",
		"there-before": "At %s, this task was there before, with this content: no new one was created.",
		"existing":     "At %s, this task had the same key, and had not ended: no new one was created.",
		"replaced":     "This task waited at %s, and was replaced by what was submitted.",
		"skipped":      "This task with the same key was due just before %s: no new one was created.",
	}},
	{path: "/bulk/new/:do", do: startBulk, says: sentencesByKey{
		"bulk-started": "It was started at %s.",
	}},
	{path: "/bulk/:id/stop", do: stopBulk, form: "/bulk/:id", says: sentencesByKey{
		"bulk-stopped": "It was asked to stop at %s.",
	}},
	{path: "/queues/:name/pause", do: pauseQueue, form: queuePath, says: sentencesByKey{
		"queue-paused": "The queue was paused at %s.",
	}},
	{path: "/queues/:name/resume", do: resumeQueue, form: queuePath, says: sentencesByKey{
		"queue-resumed": "The queue was resumed at %s.",
	}},
	{path: "/queues/:name/capacity", do: setCapacity, form: queuePath, says: sentencesByKey{
		"queue-capacity":    "The capacity was set at %s.",
		"queue-no-capacity": "The capacity was removed at %s.",
	}},
	{path: "/limits/new", do: putLimit, says: limitSet},
	{path: "/limits/:name/set", do: setLimit, form: limitPath, says: limitSet},
	{path: "/limits/:name/pause", do: pauseLimit, form: limitPath, says: sentencesByKey{
		"limit-paused": "The limit was paused at %s.",
	}},
	{path: "/limits/:name/resume", do: resumeLimit, form: limitPath, says: sentencesByKey{
		"limit-resumed": "The limit was resumed at %s.",
		"limit-gone":    "The limit was gone already at %s.",
	}},
	{path: "/limits/:name/delete", do: deleteLimit, form: limitPath, says: sentencesByKey{
		"limit-deleted": "The limit was deleted at %s.",
		"limit-gone":    "The limit was gone already at %s.",
	}},
	{path: "/nodes/cordon", do: cordonNode, form: nodesPath, says: sentencesByKey{
		"node-cordoned": "The node was cordoned at %s.",
		"node-drained":  "The node was drained at %s, and its tasks were asked to move.",
	}},
	{path: "/nodes/uncordon", do: uncordonNode, form: nodesPath, says: sentencesByKey{
		"node-uncordoned": "The node was uncordoned at %s.",
	}},
	{path: "/schedules/new", do: putSchedule, says: revisionPut},
	{path: "/schedules/:namespace/:id/edit", do: putSchedule, says: revisionPut},
	{path: "/schedules/:namespace/:id/trigger", do: triggerSchedule, says: sentencesByKey{
		"triggered": "The schedule was triggered at %s, and got this task.",
		"waits":     "The schedule was triggered at %s. The run had to wait for the task before.",
	}},
	{path: "/schedules/:namespace/:id/pause", do: pauseSchedule, says: sentencesByKey{
		"paused": "The schedule was paused at %s.",
	}},
	{path: "/schedules/:namespace/:id/resume", do: resumeSchedule, says: sentencesByKey{
		"resumed": "The schedule was resumed at %s.",
	}},
	{path: "/schedules/:namespace/:id/delete", do: deleteSchedule, says: sentencesByKey{
		"deleted": "The schedule was deleted at %s.",
		"gone":    "The schedule was gone already at %s.",
	}},
	{path: "/schedules/:namespace/:id/rollback", do: rollBackSchedule, says: sentencesByKey{
		"rolledback": "The definition of revision %d was put again at %s.",
	}},
	{path: "/schedules/:namespace/:id/backfill", do: backfillSchedule, says: sentencesByKey{
		"backfilled": "%d tasks were created at %s.",
	}},
}

var limitSet = sentencesByKey{"limit-set": "The limit was set at %s."}

var revisionPut = sentencesByKey{
	"put":        "Revision %d was put at %s.",
	"put-before": "Revision %d said the same at %s: no new one was put.",
}

// Said is what the last action has done; "" if the page is shown for another reason, as from a link of somebody else.
func (v *visit) Said() template.HTML {
	at, _ := strconv.ParseInt(v.query.Get("at"), 10, 64)
	done := result{
		path: v.path, said: v.query.Get("said"), n: v.number("n"), at: at, twice: v.query.Get("twice") != "",
	}
	if v.token == "" || v.query.Get("mark") != done.mark(v.token) {
		return ""
	}
	said := v.sentenceOf(done, v.Moment(time.UnixMilli(at)))
	if said != "" && done.twice {
		said += " " + v.T("You sent this form twice; it was done once.")
	}
	return said
}

// sentenceOf says what an action has done, and when; "" if no action says that.
func (v *visit) sentenceOf(done result, at template.HTML) template.HTML {
	for _, a := range actions {
		switch text := a.says[done.said]; {
		case text == "":
			continue
		case strings.Contains(text, "%d"):
			return v.translated(text, done.n, at)
		default:
			return v.translated(text, at)
		}
	}
	return ""
}

// sentBefore says of a form that is sent again what it has done, when, and where that is.
func (v *visit) sentBefore(done result) template.HTML {
	at := time.UnixMilli(done.at)
	said := v.sentenceOf(done, v.Moment(at)+" "+template.HTML(at.In(v.zone).Format("MST"))) //nolint:gosec // a zone
	path, _, _ := strings.Cut(done.path, "?")
	words := v.T("Schedules")
	if path == "/workflows" {
		words = v.T("Workflows")
	}
	name, err := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
	if isList := strings.Count(path, "/") == 1; err == nil && !isList {
		words = code(name)
	}
	link := linkTo(template.URL(done.path), words) //nolint:gosec // made of escaped parts
	return v.T("This form was sent before. %s Its result: %s.", said, link)
}

// saidParameters are the parameters that an action adds to the address of its result.
var saidParameters = []string{"said", "n", "at", "twice", "mark"}

// mark shows that the action was that of a reader, whose token nobody else knows.
func (r result) mark(token string) string {
	path, _, _ := strings.Cut(r.path, "?")
	sum := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(sum, "%s %s %d %d %t", path, r.said, r.n, r.at, r.twice)
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// address is where the result is shown to the reader with a token.
func (r result) address(token string) string {
	query := url.Values{"said": {r.said}, "at": {strconv.FormatInt(r.at, 10)}, "mark": {r.mark(token)}}
	if r.n != 0 {
		query.Set("n", itoa(r.n))
	}
	if r.twice {
		query.Set("twice", "1")
	}
	separator := "?"
	if strings.Contains(r.path, "?") {
		separator = "&"
	}
	return r.path + separator + query.Encode()
}
