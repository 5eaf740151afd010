// Package control has the use cases: whatever people and programs can ask of DTS is a method of Control, and what DTS
// decides about a request is decided here. Only health, metrics and the document of the API are not its business. The
// edges (the REST API, and whatever else takes requests) translate, call one method, and translate the answer. Package
// store below it reads and writes Redis and decides nothing about requests.
//
// Every use case takes a Caller, which says who asks and in which namespace. An edge makes it once for each request.
// Each use case begins with one call, begin, which looks it up in the table of operations (operations.go). What may
// refuse a caller is there: admission, which bounds what waits at this node; memory, which refuses work while Redis is
// nearly full; and the places in queues that have a limit. Roles, quotas and an audit log belong there, too, not to
// the edges.
//
// Errors that the caller can do something about are *task.Error with one of the codes that the methods name. Every
// method can also return CodeUnavailable, if Redis does not answer or refuses.
package control
