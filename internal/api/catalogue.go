package api

import (
	"net/http"

	"github.com/dts-sched/dts/internal/task"
)

// Codes of what is wrong before a request has reached anything that knows tasks.
const (
	codeNotFound             task.Code = "not_found"
	codeMethodNotAllowed     task.Code = "method_not_allowed"
	codeBodyTooLarge         task.Code = "body_too_large"
	codeUnsupportedMediaType task.Code = "unsupported_media_type"
	codeCrossOrigin          task.Code = "cross_origin"
)

// entry is what a code means over HTTP.
type entry struct {
	status int
	title  string
}

// catalogue lists every code the API answers with. The codes are the API; titles may change. The document
// has the same list (schema ProblemCode).
var catalogue = map[task.Code]entry{
	task.CodeInvalid:          {http.StatusBadRequest, "The request is invalid"},
	task.CodeTaskNotFound:     {http.StatusNotFound, "No such task"},
	task.CodeTaskConflict:     {http.StatusConflict, "The id is taken"},
	task.CodeNotWaiting:       {http.StatusConflict, "The task is not waiting"},
	task.CodeFinished:         {http.StatusConflict, "The task has already ended"},
	task.CodeNotFinished:      {http.StatusConflict, "The task has not ended yet"},
	task.CodeNotRunning:       {http.StatusConflict, "The task does not run"},
	task.CodeStaleAttempt:     {http.StatusConflict, "The attempt is not the running one"},
	task.CodeChanged:          {http.StatusConflict, "The task changed in the meantime"},
	task.CodeQueueNotFound:    {http.StatusNotFound, "No such queue"},
	task.CodeScheduleNotFound: {http.StatusNotFound, "No such schedule"},
	task.CodeScheduleChanged:  {http.StatusPreconditionFailed, "Another revision is in force"},
	task.CodeScheduleBusy:     {http.StatusConflict, "The overlap policy refuses a run now"},
	task.CodeRevisionNotFound: {http.StatusNotFound, "No such revision"},
	task.CodeLockHeld:         {http.StatusConflict, "Somebody else holds the lock"},
	task.CodeLockLost:         {http.StatusConflict, "The lock is not held any more"},
	task.CodeLockNotFound:     {http.StatusNotFound, "Nobody holds the lock"},
	task.CodeUnavailable:      {http.StatusServiceUnavailable, "Not available at the moment"},
	task.CodeNotReplicated:    {http.StatusServiceUnavailable, "Not confirmed by replicas"},
	task.CodeInternal:         {http.StatusInternalServerError, "Internal error"},

	codeNotFound:             {http.StatusNotFound, "Not found"},
	codeMethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed"},
	codeBodyTooLarge:         {http.StatusRequestEntityTooLarge, "The body is too large"},
	codeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The body is not plain JSON"},
	codeCrossOrigin:          {http.StatusForbidden, "Sent by a page of another origin"},
}
