package grpcexec

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// call is the payload of a grpc task:
// {target, method, request?, metadata?, tls?, descriptor_set?, descriptor_file?, retry_codes?}.
type call struct {
	server   server
	method   methodName
	request  json.RawMessage
	metadata metadata.MD
	set      []byte // a serialized FileDescriptorSet; nil for none
	file     string // a file with one, in the node's folder
	again    map[codes.Code]bool
}

// methodName is package.Service and Method.
type methodName struct{ service, name string }

func (m methodName) String() string { return m.service + "/" + m.name }

func (m methodName) path() string { return "/" + m.String() }

// parseCall reads a payload. If it has the descriptors of the method, it checks the method and the request as well. Error:
// *executor.InvalidPayloadError.
func parseCall(payload json.RawMessage) (*call, error) {
	var c call
	var method, set string
	var pairs map[string]string
	var encrypted json.RawMessage
	var again []string
	err := executor.DecodePayload(payload, map[string]executor.Field{
		"target":          {Into: &c.server.target, Want: "a string"},
		"method":          {Into: &method, Want: "a string"},
		"request":         {Into: &c.request, Want: "JSON"},
		"metadata":        {Into: &pairs, Want: "an object of strings"},
		"tls":             {Into: &encrypted, Want: "an object"},
		"descriptor_set":  {Into: &set, Want: "a string in base64"},
		"descriptor_file": {Into: &c.file, Want: "a string"},
		"retry_codes":     {Into: &again, Want: "a list of names of status codes"},
	})
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return checkTarget(c.server.target) },
		func() error { return c.setMethod(method) },
		func() error { return c.setMetadata(pairs) },
		func() error { return c.server.setTLS(encrypted) },
		func() error { return c.setDescriptors(set) },
		func() error { return c.setAgain(again) },
		c.checkRequest,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

func checkTarget(target string) error {
	host, port, err := net.SplitHostPort(target)
	n, failure := strconv.ParseUint(port, 10, 16)
	if err != nil || failure != nil || n == 0 || host == "" || strings.ContainsAny(host, "/\x00") {
		return executor.Invalid("target", "must be HOST:PORT, such as orders.internal:50051")
	}
	return nil
}

var methodForm = regexp.MustCompile(`^([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)/([A-Za-z_]\w*)$`)

func (c *call) setMethod(text string) error {
	m := methodForm.FindStringSubmatch(text)
	if m == nil {
		return executor.Invalid("method", "must be package.Service/Method, such as grpc.health.v1.Health/Check")
	}
	c.method = methodName{service: m[1], name: m[2]}
	return nil
}

func (c *call) setDescriptors(set string) (err error) {
	switch {
	case set != "" && c.file != "":
		return executor.Invalid("descriptor_file", "is given beside descriptor_set: give one of them")
	case c.file != "" && (c.file != filepath.Base(c.file) || strings.ContainsRune(c.file, 0) || c.file == "." || c.file == ".."):
		return executor.Invalid("descriptor_file", "must be the name of a file, without a folder")
	case set == "":
		return nil
	}
	if c.set, err = base64.StdEncoding.DecodeString(set); err != nil {
		return executor.Invalid("descriptor_set", "is not base64: %v", err)
	}
	return nil
}

// setAgain reads names of status codes, such as NOT_FOUND.
func (c *call) setAgain(names []string) error {
	c.again = make(map[codes.Code]bool, len(names))
	for i, name := range names {
		number, known := code.Code_value[name]
		if !known || number == int32(codes.OK) {
			return executor.Invalid(fmt.Sprintf("retry_codes[%d]", i), "must be the name of a status code that is an error, such as NOT_FOUND")
		}
		c.again[codes.Code(number)] = true
	}
	return nil
}

// checkRequest checks what can be checked without the server and the files of a node.
func (c *call) checkRequest() error {
	if len(c.request) == 0 || string(c.request) == "null" {
		c.request = json.RawMessage("{}")
	}
	if c.set == nil {
		return nil
	}
	m, err := methodOfSet("descriptor_set", c.set, c.method)
	if err != nil {
		return err
	}
	_, err = m.read(c.request)
	return err
}
