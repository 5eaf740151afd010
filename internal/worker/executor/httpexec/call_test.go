package httpexec

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestParseCall_RefusesAPayloadThatCannotWork(t *testing.T) {
	for name, c := range map[string]struct{ payload, field, message string }{
		"not an object":              {`[]`, "payload", "object"},
		"not JSON":                   {`{`, "payload", "object"},
		"null":                       {`null`, "payload.url", "missing"},
		"no url":                     {`{}`, "payload.url", "missing"},
		"unknown field":              {`{"url": "http://a", "methud": "GET"}`, "payload.methud", "not known: there is accept, body, expect, headers,"},
		"a field in capitals":        {`{"URL": "http://a"}`, "payload.URL", "not known"},
		"url of a wrong type":        {`{"url": 1}`, "payload.url", "a string"},
		"relative url":               {`{"url": "/path"}`, "payload.url", "absolute"},
		"url without a host":         {`{"url": "http:///path"}`, "payload.url", "absolute"},
		"url with a port only":       {`{"url": "http://:80/path"}`, "payload.url", "absolute"},
		"url of another scheme":      {`{"url": "ftp://a/b"}`, "payload.url", "http or https"},
		"file url":                   {`{"url": "file:///etc/passwd"}`, "payload.url", "http or https"},
		"unreadable url":             {`{"url": "http://a b"}`, "payload.url", "absolute"},
		"method with a space":        {`{"url": "http://a", "method": "GE T"}`, "payload.method", `"GE T" is not supported`},
		"a command of Redis":         {`{"url": "http://a", "method": "DEL"}`, "payload.method", "must be one of DELETE, GET, HEAD,"},
		"a method of Redis":          {`{"url": "http://a", "method": "copy"}`, "payload.method", "not supported"},
		"a method in full width":     {`{"url": "http://a", "method": "\uff27ET"}`, "payload.method", "not supported"},
		"a blank method":             {`{"url": "http://a", "method": " "}`, "payload.method", "not supported"},
		"method TRACE":               {`{"url": "http://a", "method": "TRACE"}`, "payload.method", "not supported"},
		"a line in a url":            {`{"url": "http://a/?b\r\nDEL c"}`, "payload.url", "control character"},
		"a tab in a url":             {`{"url": "http://a/\tb"}`, "payload.url", "control character"},
		"a line in a fragment":       {`{"url": "http://a/#\n"}`, "payload.url", "control character"},
		"a line in a status url":     {`{"url": "http://a", "accept": {"status_url": "http://a/\n"}}`, "payload.accept.status_url", "control character"},
		"a blank in a host":          {`{"url": "http://a b/c"}`, "payload.url", "absolute"},
		"method CONNECT":             {`{"url": "http://a", "method": "connect"}`, "payload.method", "not supported"},
		"headers of a wrong type":    {`{"url": "http://a", "headers": ["a"]}`, "payload.headers", "an object of strings"},
		"a header's name":            {`{"url": "http://a", "headers": {"a b": "c"}}`, "payload.headers", "not the name of a header"},
		"a header's value":           {`{"url": "http://a", "headers": {"a": "b\r\nc: d"}}`, "payload.headers", "value of a"},
		"a header twice":             {`{"url": "http://a", "headers": {"x-a": "1", "X-A": "2"}}`, "payload.headers", "X-A is given twice"},
		"a host that is none":        {`{"url": "http://a", "headers": {"host": "a b"}}`, "payload.headers", "not a host"},
		"the task's id":              {`{"url": "http://a", "headers": {"dts-task-id": "x"}}`, "payload.headers", "Dts-Task-Id is set by DTS"},
		"the attempt":                {`{"url": "http://a", "headers": {"Dts-Attempt": "x"}}`, "payload.headers", "set by DTS"},
		"the namespace":              {`{"url": "http://a", "headers": {"DTS-NAMESPACE": "x"}}`, "payload.headers", "set by DTS"},
		"an idempotency key twice":   {`{"url": "http://a", "headers": {"idempotency-key": "x", "Idempotency-Key": "y"}}`, "payload.headers", "Idempotency-Key is given twice"},
		"the length":                 {`{"url": "http://a", "headers": {"content-length": "1"}}`, "payload.headers", "set by DTS"},
		"no code at all":             {`{"url": "http://a", "success_codes": []}`, "payload.success_codes", "empty"},
		"codes of a wrong type":      {`{"url": "http://a", "success_codes": 200}`, "payload.success_codes", "a list"},
		"a code that cannot be":      {`{"url": "http://a", "success_codes": [200, 99]}`, "payload.success_codes[1]", "200 to 599"},
		"a code that is too high":    {`{"url": "http://a", "success_codes": [600]}`, "payload.success_codes[0]", "200 to 599"},
		"a range upside down":        {`{"url": "http://a", "success_codes": ["299-200"]}`, "payload.success_codes[0]", "200 to 599"},
		"a range that is none":       {`{"url": "http://a", "success_codes": ["2xx"]}`, "payload.success_codes[0]", `"2xx" must be a status code from 200 to 599`},
		"a range without an end":     {`{"url": "http://a", "success_codes": ["200-"]}`, "payload.success_codes[0]", "200 to 599"},
		"a code that is an object":   {`{"url": "http://a", "success_codes": [{}]}`, "payload.success_codes[0]", "200 to 599"},
		"a code that is null":        {`{"url": "http://a", "success_codes": [null]}`, "payload.success_codes[0]", "200 to 599"},
		"a code that is a fraction":  {`{"url": "http://a", "success_codes": [200.5]}`, "payload.success_codes[0]", "200 to 599"},
		"a code to try again":        {`{"url": "http://a", "retry_codes": [404, "5xx"]}`, "payload.retry_codes[1]", "200 to 599"},
		"an expectation as text":     {`{"url": "http://a", "expect": "ok"}`, "payload.expect", "a JSON object"},
		"an empty expectation":       {`{"url": "http://a", "expect": {}}`, "payload.expect", "empty"},
		"an unknown expectation":     {`{"url": "http://a", "expect": {"contain": "ok"}}`, "payload.expect.contain", "contains, json, matches"},
		"a bad regular expression":   {`{"url": "http://a", "expect": {"matches": "("}}`, "payload.expect.matches", "regular expression"},
		"a path that is none":        {`{"url": "http://a", "expect": {"json": {"path": "status", "equals": 1}}}`, "payload.expect.json.path", "such as $.status"},
		"a path that breaks off":     {`{"url": "http://a", "expect": {"json": {"path": "$.a[", "equals": 1}}}`, "payload.expect.json.path", "not a JSON path"},
		"a path through all":         {`{"url": "http://a", "expect": {"json": {"path": "$..a", "equals": 1}}}`, "payload.expect.json.path", "names, numbers and *"},
		"a path with a union":        {`{"url": "http://a", "expect": {"json": {"path": "$[0,0]", "equals": 1}}}`, "payload.expect.json.path", "names, numbers and *"},
		"a path with a filter":       {`{"url": "http://a", "expect": {"json": {"path": "$[?(@.a == 1)]", "equals": 1}}}`, "payload.expect.json.path", "names, numbers and *"},
		"a path with a slice":        {`{"url": "http://a", "expect": {"json": {"path": "$[1:2]", "equals": 1}}}`, "payload.expect.json.path", "names, numbers and *"},
		"no path":                    {`{"url": "http://a", "expect": {"json": {"equals": 1}}}`, "payload.expect.json.path", "such as $.status"},
		"nothing at the path":        {`{"url": "http://a", "expect": {"json": {"path": "$.a"}}}`, "payload.expect.json.equals", "missing"},
		"a code that is a long word": {`{"url": "http://a", "success_codes": ["99999999999999999999"]}`, "payload.success_codes[0]", "200 to 599"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newExecutor(t).Execute(t.Context(), executortest.NewRecorder(c.payload).Attempt)
			executortest.WantInvalid(t, err, c.field, c.message)
		})
	}
}

func FuzzParseCall(f *testing.F) {
	f.Add(`{"url": "http://a"}`)
	f.Add(`{"method": "get", "url": "https://u:p@h:1/p?q#f", "headers": {"a": "b", "host": "c"}, "body": {"a": 1}, "success_codes": [200, "300-399", "404"]}`)
	f.Add(`{"url": "http://a", "retry_codes": ["400-499"], "expect": {"contains": "a", "matches": "b+", "json": {"path": "$.c[*].d[-1]", "equals": null}}}`)
	f.Add(`{"url": "http://[::1]:80/%zz", "body": "text"}`)
	f.Add(`{"success_codes": ["-", "--", "1-2-3", -1]}`)
	f.Add(`[]`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := parseCall(json.RawMessage(payload))
		if err != nil {
			var invalid *executor.InvalidPayloadError
			if !errors.As(err, &invalid) || c != nil {
				t.Fatalf("%q: got %v, %v", payload, c, err)
			}
			return
		}
		if c.method == "" || c.url.Host == "" || len(c.codes) == 0 || c.codes.contain(199) || c.codes.contain(600) {
			t.Fatalf("%q: got %+v", payload, c)
		}
		e := &Executor{}
		if req := e.request(t.Context(), c, executortest.NewRecorder(payload).Attempt); req.Header["Idempotency-Key"] != nil {
			t.Fatalf("%q: a request that net/http repeats", payload)
		}
	})
}
