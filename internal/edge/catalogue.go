package edge

import (
	"maps"
	"net/http"
	"slices"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
)

// Codes of what is wrong before a request has reached anything that knows tasks.
const (
	CodeNotFound             task.Code = "not_found"
	CodeMethodNotAllowed     task.Code = "method_not_allowed"
	CodeBodyTooLarge         task.Code = "body_too_large"
	CodeBodyTooSlow          task.Code = "body_too_slow"
	CodeHeadTooLarge         task.Code = "head_too_large"
	CodeUnsupportedMediaType task.Code = "unsupported_media_type"
	CodeCrossOrigin          task.Code = "cross_origin"
	CodeTooManyConnections   task.Code = "too_many_connections"
	CodeTooManyStreams       task.Code = "too_many_streams"
	CodeHostNotAllowed       task.Code = "host_not_allowed"
)

// entry is what a code means over HTTP.
type entry struct {
	status  int
	title   string
	retry   int    // seconds after which the client may try again; with every 503 and 429
	meaning string // when it is answered, as Markdown; openapi.yaml has the same words
	help    string // what the client does then, as Markdown
}

// catalogue lists every code of a Problem. The codes are part of the API; texts may change. openapi.yaml has the same
// list (schema ProblemCode). docs/errors.md is made from it.
var catalogue = map[task.Code]entry{
	task.CodeInvalid: {
		status: http.StatusBadRequest, title: "The request is invalid",
		meaning: "a field or parameter is wrong; `field` names it",
		help:    "Correct what `field` names. The same request fails again.",
	},
	task.CodeTaskNotFound: {
		status: http.StatusNotFound, title: "No such task",
		meaning: "no task of that id in that namespace",
		help:    "Check the id and the namespace. A task is deleted when its `retention` is over.",
	},
	task.CodeTaskConflict: {
		status: http.StatusConflict, title: "The id is taken",
		meaning: "the id is taken by a task with other content",
		help:    "Choose another id, or submit the content that the task has.",
	},
	task.CodeNotWaiting: {
		status: http.StatusConflict, title: "The task is not waiting",
		meaning: "only a task that waits can be changed",
		help:    "Cancel the task and submit another one, or wait for its end and retry it.",
	},
	task.CodeFinished: {
		status: http.StatusConflict, title: "The task has already ended",
		meaning: "the task has already ended",
		help:    "Nothing is left to cancel. `dtsctl task retry` runs the task again.",
	},
	task.CodeNotFinished: {
		status: http.StatusConflict, title: "The task has not ended yet",
		meaning: "the task has not ended yet",
		help:    "Wait for the end of the task, or cancel it first.",
	},
	task.CodeNotRunning: {
		status: http.StatusConflict, title: "The task does not run",
		meaning: "only a running task can report",
		help:    "Stop the work: the attempt has ended, or its task was cancelled.",
	},
	task.CodeCannotMove: {
		status: http.StatusConflict, title: "The task cannot move while it runs",
		meaning: "dtsd runs the task by itself: only handlers in Go and workers by HTTP can give running work up",
		help:    "Wait for the end of the attempt, or cancel the task and submit it again.",
	},
	workflow.CodeNotFound: {
		status: http.StatusNotFound, title: "No such workflow",
		meaning: "no workflow of that id in that namespace",
		help:    "Check the id and the namespace. `dtsctl flow list` shows the workflows.",
	},
	workflow.CodeChanged: {
		status: http.StatusPreconditionFailed, title: "The workflow is at another revision",
		meaning: "the workflow is not at the revision that the request names",
		help:    "Read the workflow, and decide again.",
	},
	workflow.CodeRevisionNotFound: {
		status: http.StatusNotFound, title: "No such revision",
		meaning: "the workflow never had the revision, or it is not kept any more",
		help:    "`dtsctl flow history` shows the revisions that are kept.",
	},
	workflow.CodeSignalGiven: {
		status: http.StatusConflict, title: "The run has the signal already",
		meaning: "a run can be given each signal once, and has it with other data",
		help:    "`dtsctl flow show` shows the signals that the run has, and who has given them.",
	},
	workflow.CodeStepNotWaiting: {
		status: http.StatusConflict, title: "The step waits for no answer",
		meaning: "the step has not begun to wait for an approval, or has its verdict",
		help:    "`dtsctl flow show` shows what each step waits for.",
	},
	task.CodeStep: {
		status: http.StatusConflict, title: "The task is a step of a run",
		meaning: "a step of a run of a workflow is retried and changed with its run only",
		help:    "`dtsctl flow rerun` runs steps again; the definition of the workflow says what they are.",
	},
	task.CodeNotARun: {
		status: http.StatusConflict, title: "The task is no run of a workflow",
		meaning: "only tasks of the type `workflow` have steps",
		help:    "`dtsctl task list --type workflow` shows the runs.",
	},
	task.CodeStaleAttempt: {
		status: http.StatusConflict, title: "The attempt is not the running one",
		meaning: "the report is not from the attempt that runs now",
		help:    "Stop the work: another attempt of the task runs, or has ended.",
	},
	task.CodeChanged: {
		status: http.StatusConflict, title: "The task changed in the meantime",
		meaning: "somebody else changed the task in between",
		help:    "Read the task, and decide again.",
	},
	control.CodeQueueFull: {
		status: http.StatusTooManyRequests, title: "The queue is full", retry: 5,
		meaning: "as many tasks wait in the queue as its capacity allows",
		help: "Send the request again after `retry_after` seconds. Add workers, or raise the capacity: " +
			"`dtsctl queue capacity`.",
	},
	control.CodeTooManyNames: {
		status: http.StatusTooManyRequests, title: "Too many queues and types wait for workers", retry: 60,
		meaning: "nobody runs the task, and in its part of Redis its namespace has as many names of queues and " +
			"types as are free of 1,000",
		help: "Start a worker for the type and the queue, or correct their names. `dtsctl queue list` shows " +
			"which queues have no workers.",
	},
	control.CodeNodeNotFound: {
		status: http.StatusNotFound, title: "No such node",
		meaning: "no node of that id or name is on the list of nodes, and none of that id has lost attempts lately",
		help:    "`dtsctl node list` shows the nodes.",
	},
	control.CodeTooManyCordons: {
		status: http.StatusConflict, title: "Too many cordons",
		meaning: "1,000 ids and names of nodes are cordoned",
		help:    "Uncordon some: `dtsctl node list` shows which nodes are cordoned.",
	},
	control.CodeBulkNotFound: {
		status: http.StatusNotFound, title: "No such bulk action",
		meaning: "there is no bulk action of that id, or it is none of the newest 100",
		help:    "`dtsctl bulk list` shows the actions.",
	},
	control.CodeLimitNotFound: {
		status: http.StatusNotFound, title: "No such limit",
		meaning: "no limit has that name",
		help:    "`dtsctl limit list` shows the limits. `key:*` is a name of its own beside `key:tenant-7`.",
	},
	control.CodeQueueNotFound: {
		status: http.StatusNotFound, title: "No such queue",
		meaning: "no worker node has served a queue of that name, and no task was put into it",
		help:    "`dtsctl queue list` shows the queues.",
	},
	schedule.CodeNotFound: {
		status: http.StatusNotFound, title: "No such schedule",
		meaning: "no schedule of that id in that namespace",
		help:    "Check the id and the namespace: `dtsctl schedule list`.",
	},
	schedule.CodeChanged: {
		status: http.StatusPreconditionFailed, title: "Another revision is in force",
		meaning: "the revision that the request names is not in force any more",
		help:    "Read the schedule, apply your change to it, and send its new `ETag` as `If-Match`.",
	},
	schedule.CodeBusy: {
		status: http.StatusConflict, title: "The overlap policy refuses a run now",
		meaning: "the overlap policy of the schedule keeps it from running now",
		help:    "Wait until the task of the schedule has ended, or cancel it.",
	},
	schedule.CodeRevisionNotFound: {
		status: http.StatusNotFound, title: "No such revision",
		meaning: "the schedule had no such revision, or no longer remembers it",
		help:    "`dtsctl schedule history` shows the revisions.",
	},
	control.CodeLockHeld: {
		status: http.StatusConflict, title: "Somebody else holds the lock",
		meaning: "somebody else holds the lock",
		help:    "Ask with `wait`, or later. `dtsctl lock list` shows who holds it.",
	},
	control.CodeLockLost: {
		status: http.StatusConflict, title: "The lock is not held any more",
		meaning: "the lock has expired or was released, so that it cannot be renewed",
		help:    "Stop the work that needs the lock, and acquire it again. Its new fence is higher.",
	},
	control.CodeLockNotFound: {
		status: http.StatusNotFound, title: "Nobody holds the lock",
		meaning: "nobody holds a lock of that name in that namespace",
		help:    "Nothing is to be done: the lock is free.",
	},
	task.CodeOverloaded: {
		status: http.StatusServiceUnavailable, title: "Too much is under way", retry: 1,
		meaning: "too many submissions wait at this node, or too many bytes of bodies or answers are under way; " +
			"nothing was done",
		help: "Send the request again after `retry_after` seconds, or send it to another node.",
	},
	task.CodeUnavailable: {
		status: http.StatusServiceUnavailable, title: "Not available at the moment", retry: 5,
		meaning: "Redis cannot be reached, refuses writes, is nearly full or too slow; or this node is not ready",
		help: "Send the request again, with the same id or `Idempotency-Key`: it may have been done. `dtsctl " +
			"status` shows whether the outage lasts.",
	},
	task.CodeNotReplicated: {
		status: http.StatusServiceUnavailable, title: "Not confirmed by replicas", retry: 5,
		meaning: "it was done, but too few replicas of Redis have confirmed it (`--durability`): a failover may " +
			"lose it, or has lost it; repeat the request",
		help: "Send the same request again, with the same id or `Idempotency-Key`. See `durability` in " +
			"`docs/operations.md`.",
	},
	task.CodeUnreadable: {
		status: http.StatusInternalServerError, title: "It cannot be read in Redis",
		meaning: "what Redis has of the task or the schedule cannot be read; `dtsctl doctor` names it, and says " +
			"what mends it",
		help: "Run `dtsctl doctor`. The node's log names the key and the cause.",
	},
	task.CodeInternal: {
		status: http.StatusInternalServerError, title: "Internal error",
		meaning: "a fault of DTS",
		help:    "Look for the `request_id` in the node's log, and report the fault with that line.",
	},
	CodeNotFound: {
		status: http.StatusNotFound, title: "Not found",
		meaning: "nothing is at that path",
		help: "Check the path: `/docs` lists all of them. A node without the role `api` answers so, " +
			"too.",
	},
	CodeMethodNotAllowed: {
		status: http.StatusMethodNotAllowed, title: "Method not allowed",
		meaning: "the path exists, the method does not",
		help:    "`/docs` lists the methods of each path.",
	},
	CodeBodyTooLarge: {
		status: http.StatusRequestEntityTooLarge, title: "The body is too large",
		meaning: "the body is over the limit",
		help: "Send a smaller body, or several batches. Keep large data elsewhere, and put its address into " +
			"the payload.",
	},
	CodeBodyTooSlow: {
		status: http.StatusRequestTimeout, title: "The body arrives too slowly",
		meaning: "64 KiB of the body took longer than 10 s to arrive, or a smaller body did",
		help:    "Send smaller batches, or check the network between the client and the node.",
	},
	CodeHeadTooLarge: {
		status: http.StatusRequestHeaderFieldsTooLarge, title: "The head of the request is too large",
		meaning: "the address and the headers of the request have more than 64 KiB",
		help:    "Send fewer cookies and headers, or a shorter address.",
	},
	CodeUnsupportedMediaType: {
		status: http.StatusUnsupportedMediaType, title: "The body is not plain JSON",
		meaning: "the body must be `application/json`, not encoded",
		help:    "Send `Content-Type: application/json`, in UTF-8 and without a `Content-Encoding`.",
	},
	CodeCrossOrigin: {
		status: http.StatusForbidden, title: "Sent by a page of another origin",
		meaning: "a page of another origin made a browser send the request, or a reverse proxy did not pass on " +
			"the `Host` that the browser sent",
		help: "Send the request from a program. Have a reverse proxy pass on `Host`, and name that host in " +
			"`--allowed-hosts`.",
	},
	CodeTooManyConnections: {
		status: http.StatusTooManyRequests, title: "Too many connections", retry: 1,
		meaning: "the client's address has as many connections as it may (`--max-connections-per-address`), or " +
			"all have half of the files that the node may open",
		help: "Reuse connections, close those that are idle, or raise the limit.",
	},
	CodeTooManyStreams: {
		status: http.StatusServiceUnavailable, title: "Too many streams", retry: 5,
		meaning: "the client's address (`--max-streams-per-address`) or the node (`--max-streams`) has as many " +
			"streams of events and logs as it may",
		help: "Close streams that nobody reads, follow several tasks with one stream, or ask another node.",
	},
	CodeHostNotAllowed: {
		status: http.StatusForbidden, title: "Sent to a name that is not this server's",
		meaning: "the `Host` header is no name of this server (`--allowed-hosts`)",
		help: "Send the request to `localhost` or to the node's address, or name the host in " +
			"`--allowed-hosts`.",
	},
}

// Codes lists the codes that a Problem can have, in alphabetical order.
func Codes() []task.Code { return slices.Sorted(maps.Keys(catalogue)) }

// Explanation says what a code means, for people. Meaning and Help are Markdown of one line.
type Explanation struct {
	Code          task.Code
	Status        int // of HTTP
	Title         string
	Meaning, Help string
	RetryAfter    int // seconds; 0: the same request fails again, or nobody knows when it would succeed
}

// Explain explains each code, in alphabetical order.
func Explain() []Explanation {
	all := make([]Explanation, 0, len(catalogue))
	for _, code := range Codes() {
		e := catalogue[code]
		all = append(all, Explanation{
			Code: code, Status: e.status, Title: e.title, Meaning: e.meaning, Help: e.help, RetryAfter: e.retry,
		})
	}
	return all
}
