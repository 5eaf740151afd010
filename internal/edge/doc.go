// Package edge is the HTTP server of a node, without anything that it serves. Package api registers the REST API on it.
// Whatever else a node serves, as pages for browsers, registers its routes in the same way.
//
//	connection   limits by address and by open files           connections.go
//	     |
//	request      the base path                                 base.go
//	     |       id, access log, recovery from panics          middleware.go
//	     |       guard against pages of other origins          guard.go
//	     |       refusal, name of the caller, limit of bodies  middleware.go, caller.go
//	     |
//	handler      of api, or of a page: it asks control
//	     |       Receive reads a body into shared memory       receive.go, budget.go
//	     |       Arrive and TakeTurn wait for admission        caller.go, answers.go
//	     |
//	answer       JSON, Mount: a text in shared memory          answers.go, mount.go
//	             Follow: a stream with heartbeats              stream.go
//	             an error: a Problem                           problem.go, catalogue.go
//
// Use: New, then register routes (Echo, Mount) and what differs for their paths (SetPolicy), then Run, which ends with
// its context. Handlers return errors. Whatever goes wrong becomes a Problem in one place (fail), with a code of one
// catalogue, and one line of the log.
//
// A handler tells the use cases who asks with CallerOf. A large answer counts against the address of its client until
// that has read it. So everything that is not small goes through JSON, Mount or Follow.
//
// The package knows no operation and, but for Problem, no schema: these belong to whoever registers routes. It imports
// neither package api nor a store, and asks Redis nothing.
package edge
