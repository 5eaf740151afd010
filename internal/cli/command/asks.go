package command

import "strings"

// asksKey is the annotation of a command with the operations that it asks the server for.
const asksKey = "asks"

// Asks returns the annotations of a command that asks the server for these operations, which are named as in the API's
// document. One that has none asks for nothing.
func Asks(operations ...string) map[string]string {
	return map[string]string{asksKey: strings.Join(operations, " ")}
}

// AsksOf returns the operations of a command's annotations.
func AsksOf(annotations map[string]string) []string { return strings.Fields(annotations[asksKey]) }
