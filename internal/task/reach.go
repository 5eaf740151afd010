package task

import "strings"

// Limits of what says where a task runs.
const (
	ReachLimit    = 2000 // characters of the reach
	RouteKeyLimit = 100  // of the key of a route
)

// validateReach checks what says where the task runs. Package route, which writes it, has checked the rest. "^" stands
// before a move, which no definition has. Error: CodeInvalid.
func (d Definition) validateReach() error {
	switch {
	case len(d.Reach) > ReachLimit || strings.ContainsAny(d.Reach, " \"\\<>&^\n"):
		return Invalid("select", "%q cannot be stored: it must be what package route writes", d.Reach)
	case d.RouteKey != "" && d.Reach == "":
		return Invalid("route.key", "must be left out without a route")
	}
	return Within("route", ValidateRouteKey(d.RouteKey))
}

// ValidateRouteKey checks the key by which a route chooses a node; "" is none. Error: CodeInvalid of the field key.
func ValidateRouteKey(key string) error {
	switch {
	case key == "":
		return nil
	case len(key) > RouteKeyLimit:
		return Invalid("key", "is %d characters long, at most %d are allowed", len(key), RouteKeyLimit)
	case !isName(key):
		return Invalid("key", "%q must be 1 to %d characters of %s", key, RouteKeyLimit, nameAlphabet)
	}
	return nil
}
