// Package control has the use cases: whatever people and programs can ask of DTS, except event streams and asynqmon,
// is a method of Control, and what DTS decides about a request is decided here. The edges (the REST API, and whatever
// else takes requests) translate, call one method, and translate the answer. Package store below it reads and writes
// Redis and decides nothing about requests.
//
// Every use case takes a Caller, which says who asks and in which namespace. An edge resolves it once for each request.
// What depends on who asks (tokens, quotas, an audit log) belongs to the Caller and to the use cases here, not to the
// edges.
//
// A use case that creates work is let in by Admission, which bounds what waits at this node: the edge asks it, but for submissions. It calls checkMemory
// first, which refuses work while Redis is nearly full; submissions then take their places in queues that have a limit (queueRoom).
//
// Errors that the caller can do something about are *task.Error with one of the codes that the methods name. Every
// method can also return CodeUnavailable, if Redis does not answer or refuses.
package control
