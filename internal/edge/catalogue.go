package edge

import (
	"maps"
	"net/http"
	"slices"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// Codes of what is wrong before a request has reached anything that knows tasks.
const (
	CodeNotFound             task.Code = "not_found"
	CodeMethodNotAllowed     task.Code = "method_not_allowed"
	CodeBodyTooLarge         task.Code = "body_too_large"
	CodeBodyTooSlow          task.Code = "body_too_slow"
	CodeUnsupportedMediaType task.Code = "unsupported_media_type"
	CodeCrossOrigin          task.Code = "cross_origin"
	CodeTooManyConnections   task.Code = "too_many_connections"
	CodeTooManyStreams       task.Code = "too_many_streams"
	CodeHostNotAllowed       task.Code = "host_not_allowed"
)

// entry is what a code means over HTTP.
type entry struct {
	status int
	title  string
	retry  int // seconds after which the client may try again; with every 503 and 429
}

// catalogue lists every code of a Problem. The codes are part of the API; titles may change. openapi.yaml has the same
// list (schema ProblemCode).
var catalogue = map[task.Code]entry{
	task.CodeInvalid:      {status: http.StatusBadRequest, title: "The request is invalid"},
	task.CodeTaskNotFound: {status: http.StatusNotFound, title: "No such task"},
	task.CodeTaskConflict: {status: http.StatusConflict, title: "The id is taken"},
	task.CodeNotWaiting:   {status: http.StatusConflict, title: "The task is not waiting"},
	task.CodeFinished:     {status: http.StatusConflict, title: "The task has already ended"},
	task.CodeNotFinished:  {status: http.StatusConflict, title: "The task has not ended yet"},
	task.CodeNotRunning:   {status: http.StatusConflict, title: "The task does not run"},
	task.CodeStaleAttempt: {status: http.StatusConflict, title: "The attempt is not the running one"},
	task.CodeChanged:      {status: http.StatusConflict, title: "The task changed in the meantime"},
	control.CodeQueueFull: {status: http.StatusTooManyRequests, title: "The queue is full", retry: 5},
	control.CodeTooManyNames: {
		status: http.StatusTooManyRequests, title: "Too many queues and types wait for workers", retry: 60,
	},
	control.CodeNodeNotFound:      {status: http.StatusNotFound, title: "No such node"},
	control.CodeBulkNotFound:      {status: http.StatusNotFound, title: "No such bulk action"},
	control.CodeQueueNotFound:     {status: http.StatusNotFound, title: "No such queue"},
	schedule.CodeNotFound:         {status: http.StatusNotFound, title: "No such schedule"},
	schedule.CodeChanged:          {status: http.StatusPreconditionFailed, title: "Another revision is in force"},
	schedule.CodeBusy:             {status: http.StatusConflict, title: "The overlap policy refuses a run now"},
	schedule.CodeRevisionNotFound: {status: http.StatusNotFound, title: "No such revision"},
	control.CodeLockHeld:          {status: http.StatusConflict, title: "Somebody else holds the lock"},
	control.CodeLockLost:          {status: http.StatusConflict, title: "The lock is not held any more"},
	control.CodeLockNotFound:      {status: http.StatusNotFound, title: "Nobody holds the lock"},
	task.CodeOverloaded:           {status: http.StatusServiceUnavailable, title: "Too much is under way", retry: 1},
	task.CodeUnavailable:          {status: http.StatusServiceUnavailable, title: "Not available at the moment", retry: 5},
	task.CodeNotReplicated:        {status: http.StatusServiceUnavailable, title: "Not confirmed by replicas", retry: 5},
	task.CodeUnreadable:           {status: http.StatusInternalServerError, title: "It cannot be read in Redis"},
	task.CodeInternal:             {status: http.StatusInternalServerError, title: "Internal error"},

	CodeNotFound:             {status: http.StatusNotFound, title: "Not found"},
	CodeMethodNotAllowed:     {status: http.StatusMethodNotAllowed, title: "Method not allowed"},
	CodeBodyTooLarge:         {status: http.StatusRequestEntityTooLarge, title: "The body is too large"},
	CodeBodyTooSlow:          {status: http.StatusRequestTimeout, title: "The body arrives too slowly"},
	CodeUnsupportedMediaType: {status: http.StatusUnsupportedMediaType, title: "The body is not plain JSON"},
	CodeCrossOrigin:          {status: http.StatusForbidden, title: "Sent by a page of another origin"},
	CodeTooManyConnections:   {status: http.StatusTooManyRequests, title: "Too many connections", retry: 1},
	CodeTooManyStreams:       {status: http.StatusServiceUnavailable, title: "Too many streams", retry: 5},
	CodeHostNotAllowed:       {status: http.StatusForbidden, title: "Sent to a name that is not this server's"},
}

// Codes lists the codes that a Problem can have, in alphabetical order.
func Codes() []task.Code { return slices.Sorted(maps.Keys(catalogue)) }
