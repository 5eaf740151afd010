// Command errordoc prints docs/errors.md: the codes of problems, from the catalogue in package edge. `make generate`
// runs it, and `make verify` fails when the document differs from the catalogue.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dts-sched/dts/internal/edge"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "errordoc:", err)
		os.Exit(1)
	}
}

// introduction is what stands above the table; ' stands for the mark of code.
const introduction = `<!-- Made from the catalogue in internal/edge/catalogue.go by "make generate". Do not edit. -->
# Errors of the API

Every error is a problem document (RFC 9457, 'application/problem+json'), such as this one:

'''json
{
  "code": "queue_full",
  "detail": "the queue \"mails\" is full: 1000 tasks wait in it, its capacity is 1000",
  "request_id": "4Q2KZJ7V",
  "retry_after": 5,
  "status": 429,
  "title": "The queue is full",
  "type": "urn:dts:problem:queue_full"
}
'''

Programs go by 'code', which is stable. 'field' names the part of the request at fault, if there is one. 'detail' is
for people, and its wording may change. 'request_id' is also in the header 'X-Request-Id' and in the log of the node.

Every 503 and 429 has the header 'Retry-After', in seconds, and the same in 'retry_after'. A task that was submitted
with an id, or with an 'Idempotency-Key', can be submitted again after each of these errors: it runs once.

| code | status | meaning | what to do |
|---|---|---|---|
`

// write prints the document to w.
func write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(introduction, "'", "`"))
	for _, e := range edge.Explain() {
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", e.Code, e.Status, sentence(e.Meaning), e.Help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sentence begins with a capital letter, and ends with a full stop.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
