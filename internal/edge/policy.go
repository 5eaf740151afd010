package edge

import "github.com/labstack/echo/v4"

// Policy says how the requests of a path are treated that differ from others. The zero Policy is that of all others.
type Policy struct {
	Always    bool  // they are answered even if Options.Refusal refuses all others
	Routine   bool  // machines send them again and again: the log has their failures at the level debug
	Costly    bool  // their answers take long to compute: pages of other origins may not even link to them
	BodyLimit int64 // bytes; 0: Options.BodyLimit

	// Fail answers what went wrong in its own way, and reports whether it has. Where it is nil or has not, a Problem is
	// the answer.
	Fail func(c echo.Context, p Problem) (answered bool)
}

// NoPath is the path of Echo of all requests to paths that nobody has registered.
const NoPath = ""

// SetPolicy sets the Policy of paths of Echo, such as /v1/tasks/:id, in place of the one that they had. It is called
// before the first request.
func (s *Server) SetPolicy(p Policy, paths ...string) {
	for _, path := range paths {
		s.policies[path] = p
	}
}

// policyOf is the Policy of the path that a request was routed to.
func (s *Server) policyOf(c echo.Context) Policy { return s.policies[c.Path()] }
