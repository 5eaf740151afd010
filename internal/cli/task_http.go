package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type httpOptions struct {
	spec
	httpCall
	session *session
	url     string
}

// httpCall is what can be said about a call beside its URL.
type httpCall struct {
	given   *pflag.FlagSet
	method  string
	headers []string
	data    string
	codes   []string
}

// httpFlags are the names of its flags.
var httpFlags = []string{"method", "header", "data", "success-codes"}

func (h *httpCall) bind(flags *pflag.FlagSet) {
	h.given = flags
	flags.StringVarP(&h.method, "method", "X", "", "the method of the call (default POST)")
	flags.StringArrayVarP(&h.headers, "header", "H", nil, "a header of the call, as 'Name: value'; may be repeated")
	flags.StringVarP(&h.data, "data", "d", "", "the body of the call: a text, @FILE, or @- for standard input")
	flags.StringSliceVar(&h.codes, "success-codes", nil, "which statuses are a success, as 200,404 or 200-299")
}

// httpPayload is what the http executor takes.
type httpPayload struct {
	Method       string            `json:"method,omitempty"`
	URL          string            `json:"url"`
	Headers      map[string]string `json:"headers,omitempty"`
	Body         json.RawMessage   `json:"body,omitempty"`
	SuccessCodes []any             `json:"success_codes,omitempty"`
}

func newHTTPCommand(s *session) *cobra.Command {
	o := httpOptions{session: s}
	cmd := &cobra.Command{
		Use:   "http URL",
		Short: "Submit a task that calls a URL",
		Long: `http submits a task of type http: a worker calls the URL, with POST unless --method says otherwise, and the
task succeeds if the answer's status is 2xx or one of --success-codes.

--data is sent as it is; if it is a JSON object or list, it is sent as application/json.`,
		Example: `  dtsctl task http https://example.com/hook --delay 10m
  dtsctl task http -X GET https://example.com/health --success-codes 200,204 --wait
  dtsctl task http https://example.com/orders -H 'Authorization: Bearer abc' -d '{"order": 42}'
  dtsctl task http https://example.com/upload -H 'Content-Type: text/csv' -d @report.csv`,
		Args: named("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			return o.run(cmd.Context())
		},
	}
	o.spec.bind(cmd)
	o.httpCall.bind(cmd.Flags())
	return cmd
}

func (o *httpOptions) run(ctx context.Context) error {
	payload, err := o.payloadFor(o.session, o.url)
	if err != nil {
		return err
	}
	return o.submit(ctx, o.session, "http", payload)
}

// payloadFor is the payload of a task that calls the URL.
func (h *httpCall) payloadFor(s *session, url string) (json.RawMessage, error) {
	headers, err := pairs("--header", ":", h.headers)
	if err != nil {
		return nil, err
	}
	p := httpPayload{Method: h.method, URL: url, SuccessCodes: codesOf(h.codes)}
	if headers != nil {
		p.Headers = trimmed(*headers)
	}
	if h.given.Changed("data") {
		text, err := s.textFrom("--data", h.data)
		if err != nil {
			return nil, err
		}
		if p.Body, err = dataOf(text); err != nil {
			return nil, err
		}
	}
	return rawOf(p)
}

// dataOf is a body as the payload holds it: JSON objects and lists as they are, anything else as a text.
func dataOf(text string) (json.RawMessage, error) {
	start := strings.TrimLeft(text, " \t\r\n")
	if (strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[")) && json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	return rawOf(text)
}

// codesOf has numbers for codes; what is none, such as a range, is the server's to read.
func codesOf(texts []string) []any {
	var codes []any
	for _, text := range texts {
		if n, err := strconv.Atoi(text); err == nil {
			codes = append(codes, n)
			continue
		}
		codes = append(codes, text)
	}
	return codes
}

func trimmed(m map[string]string) map[string]string {
	for name, value := range m {
		m[name] = strings.TrimSpace(value)
	}
	return m
}
