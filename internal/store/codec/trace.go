package codec

import "strings"

// A stored definition of a task with a trace has one field more at the end of its head. The name of the field has the
// traceparent, and its value is 0. Nodes of all releases leave such a field out when they compare contents, as one that
// has its default, and ignore it when they read the definition. See ADR 39.
const (
	traceBegin  = `,"trace `
	traceEnd    = `":0}`
	traceLength = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
)

// WithTrace adds a traceparent to an encoded definition; "" changes nothing. The result is what Redis holds. It is not
// the canonical form, of which SHA-1s are kept.
func WithTrace(def, traceparent string) string {
	if len(traceparent) != traceLength {
		return def
	}
	head, payload, _ := strings.Cut(def, "\n")
	return strings.TrimSuffix(head, "}") + traceBegin + traceparent + traceEnd + "\n" + payload
}

// traceOf returns the traceparent in the head of a stored definition; "" if there is none.
func traceOf(head []byte) string {
	end := len(head) - len(traceEnd)
	begin := end - traceLength
	if begin < len(traceBegin) || string(head[end:]) != traceEnd {
		return ""
	}
	if string(head[begin-len(traceBegin):begin]) != traceBegin {
		return ""
	}
	return string(head[begin:end])
}
