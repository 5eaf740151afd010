package flags

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/api/wire"
)

// GRPCCall is the flags that say how a task of type grpc calls its method.
type GRPCCall struct {
	Data           *string
	Metadata       []string
	TLS            bool
	Certificate    Certificate
	DescriptorSet  string
	DescriptorFile string
	RetryCodes     []string
}

// GRPCCallNames are the names of the flags of GRPCCall, and method.
var GRPCCallNames = append([]string{
	"method", "data", "retry-codes", "metadata", "tls", "descriptor-set", "descriptor-file",
}, certificateNames...)

// Bind adds the flags.
func (g *GRPCCall) Bind(f *pflag.FlagSet) {
	StringP(f, &g.Data, "data", "d", "the request, as JSON; @FILE, or @- for standard input (default {})")
	f.StringSliceVar(&g.RetryCodes, "retry-codes", nil, "which status codes are tried again though they are final, as NOT_FOUND")
	g.Certificate.bind(f)
	g.BindBesideHTTP(f, "H")
}

// BindBesideHTTP adds the flags that HTTPCall does not have. The metadata has a shorthand unless that is "".
func (g *GRPCCall) BindBesideHTTP(f *pflag.FlagSet, metadata string) {
	f.StringArrayVarP(&g.Metadata, "metadata", metadata, nil, "metadata of the call, as 'name: value'; may be repeated")
	f.BoolVar(&g.TLS, "tls", false, "encrypt the connection, and check the server's certificate")
	f.StringVar(&g.DescriptorSet, "descriptor-set", "", "a FILE that describes the method, written by protoc --descriptor_set_out --include_imports (default: the worker asks the server)")
	f.StringVar(&g.DescriptorFile, "descriptor-file", "", "such a file in the worker's folder, --grpc-descriptors")
}

// grpcPayload is what the grpc executor takes.
type grpcPayload struct {
	Target         string            `json:"target"`
	Method         string            `json:"method"`
	Request        json.RawMessage   `json:"request,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	TLS            *tlsPayload       `json:"tls,omitempty"`
	DescriptorSet  string            `json:"descriptor_set,omitempty"`
	DescriptorFile string            `json:"descriptor_file,omitempty"`
	RetryCodes     []string          `json:"retry_codes,omitempty"`
}

// Payload returns the payload of a task that calls the method.
func (g *GRPCCall) Payload(stdin io.Reader, target, method string) (json.RawMessage, error) {
	p := grpcPayload{Target: target, Method: method, DescriptorFile: g.DescriptorFile, RetryCodes: g.RetryCodes}
	var err error
	if p.Request, err = JSON(stdin, "--data", g.Data); err != nil {
		return nil, err
	}
	if p.Metadata, err = Pairs("--metadata", ":", g.Metadata); err != nil {
		return nil, err
	}
	for name, value := range p.Metadata {
		p.Metadata[name] = strings.TrimSpace(value)
	}
	if p.TLS, err = g.encryption(stdin); err != nil {
		return nil, err
	}
	if g.DescriptorSet != "" {
		set, err := Text(stdin, "--descriptor-set", "@"+g.DescriptorSet)
		if err != nil {
			return nil, err
		}
		p.DescriptorSet = base64.StdEncoding.EncodeToString([]byte(set))
	}
	return wire.Encode(p)
}

// encryption returns nil if no flag asks for it.
func (g *GRPCCall) encryption(stdin io.Reader) (*tlsPayload, error) {
	p, err := g.Certificate.payload(stdin)
	if p == nil && err == nil && g.TLS {
		p = &tlsPayload{}
	}
	return p, err
}
