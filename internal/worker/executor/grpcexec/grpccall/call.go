// Package grpccall reads the payloads of tasks of type grpc, and the descriptors of methods. It needs protobuf, but not gRPC: programs that
// submit such tasks check them with it.
package grpccall

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/certs"
)

const defaultTimeout = 30 * time.Second

// Describe describes the type, without settings and without an executor.
func Describe() *executor.Descriptor {
	return &executor.Descriptor{
		Type:         "grpc",
		Timeout:      defaultTimeout,
		CheckPayload: Check,
	}
}

// Call is the payload of a grpc task:
// {target, method, request?, metadata?, tls?, descriptor_set?, descriptor_file?, retry_codes?}.
type Call struct {
	Server   Server
	Method   Name
	Request  json.RawMessage
	Metadata map[string][]string // as google.golang.org/grpc/metadata has it
	Set      []byte              // a serialized FileDescriptorSet; nil for none
	File     string              // a file with one, in the node's folder
	Again    map[code.Code]bool  // after these another attempt may succeed
}

// Name is package.Service and Method.
type Name struct{ Service, Method string }

func (n Name) String() string { return n.Service + "/" + n.Method }

// Path is the method in a request.
func (n Name) Path() string { return "/" + n.String() }

// Check checks a payload. If it has the descriptors of the method, it checks the method and the request as well. Errors:
// *executor.InvalidPayloadError, and the cause of ctx.
func Check(ctx context.Context, payload json.RawMessage) error {
	c, err := Parse(payload)
	if err != nil || c.Set == nil {
		return err
	}
	set, err := ReadSet(OfPayload, c.Set)
	if err != nil {
		return err
	}
	return executor.Decode(ctx, set.Cost+c.RequestCost(), func() error {
		m, err := set.Method(c.Method)
		if err != nil {
			return err
		}
		_, err = m.Encode(c.Request)
		return err
	})
}

// Parse reads a payload, and leaves the method and the request for later. Error: *executor.InvalidPayloadError.
func Parse(payload json.RawMessage) (*Call, error) {
	var c Call
	var method, set string
	var pairs map[string]string
	var encrypted json.RawMessage
	var again []string
	err := executor.DecodePayload(payload, map[string]executor.Field{
		"target":          {Into: &c.Server.Target, Want: "a string"},
		"method":          {Into: &method, Want: "a string"},
		"request":         {Into: &c.Request, Want: "JSON"},
		"metadata":        {Into: &pairs, Want: "an object of strings"},
		"tls":             {Into: &encrypted, Want: "an object"},
		"descriptor_set":  {Into: &set, Want: "a string in base64"},
		"descriptor_file": {Into: &c.File, Want: "a string"},
		"retry_codes":     {Into: &again, Want: "a list of names of status codes"},
	})
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return checkTarget(c.Server.Target) },
		func() error { return c.setMethod(method) },
		func() error { return c.setMetadata(pairs) },
		func() error { return c.Server.setTLS(encrypted) },
		func() error { return c.setDescriptors(set) },
		func() error { return c.setAgain(again) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if len(c.Request) == 0 || string(c.Request) == "null" {
		c.Request = json.RawMessage("{}")
	}
	return &c, nil
}

func checkTarget(target string) error {
	host, port, err := net.SplitHostPort(target)
	n, failure := strconv.ParseUint(port, 10, 16)
	if err != nil || failure != nil || n == 0 || !certs.IsHost(host) {
		return executor.Invalid("target", "must be HOST:PORT, such as orders.internal:50051")
	}
	return nil
}

var methodForm = regexp.MustCompile(`^([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)/([A-Za-z_]\w*)$`)

func (c *Call) setMethod(text string) error {
	m := methodForm.FindStringSubmatch(text)
	if m == nil {
		return executor.Invalid("method", "must be package.Service/Method, such as grpc.health.v1.Health/Check")
	}
	c.Method = Name{Service: m[1], Method: m[2]}
	return nil
}

func (c *Call) setDescriptors(set string) (err error) {
	switch {
	case set != "" && c.File != "":
		return executor.Invalid("descriptor_file", "is given beside descriptor_set: give one of them")
	case c.File != "" && (c.File != filepath.Base(c.File) || strings.ContainsRune(c.File, 0) || c.File == "." || c.File == ".."):
		return executor.Invalid("descriptor_file", "must be the name of a file, without a folder")
	case set == "":
		return nil
	}
	if c.Set, err = base64.StdEncoding.DecodeString(set); err != nil {
		return executor.Invalid("descriptor_set", "is not base64: %v", err)
	}
	return nil
}

// setAgain reads names of status codes, such as NOT_FOUND.
func (c *Call) setAgain(names []string) error {
	c.Again = make(map[code.Code]bool, len(names))
	for i, name := range names {
		number, known := code.Code_value[name]
		if !known || code.Code(number) == code.Code_OK {
			return executor.Invalid(fmt.Sprintf("retry_codes[%d]", i), "%.40q must be the name of a status code that is an error, such as NOT_FOUND", name)
		}
		c.Again[code.Code(number)] = true
	}
	return nil
}
