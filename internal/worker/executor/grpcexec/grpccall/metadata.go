package grpccall

import (
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/dts-sched/dts/internal/worker/executor"
)

// reserved cannot be set by the payload: gRPC sets it. What begins with dts- names the attempt, and receivers can trust it.
var reserved = map[string]bool{"content-type": true, "user-agent": true, "te": true, "connection": true, "host": true, "transfer-encoding": true}

var (
	keyForm   = regexp.MustCompile(`^[0-9a-z_.-]+$`)
	valueForm = regexp.MustCompile(`^[\x20-\x7e]*$`)
)

// setMetadata reads metadata as https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md has it: keys are in lower case; values are
// ASCII, or bytes if the key ends with -bin, which the payload has in base64.
func (c *Call) setMetadata(pairs map[string]string) error {
	c.Metadata = make(map[string][]string, len(pairs))
	for name, value := range pairs {
		key := strings.ToLower(name)
		switch {
		case !keyForm.MatchString(key):
			return executor.Invalid("metadata", "%q is not a key of metadata", name)
		case strings.HasPrefix(key, "dts-"):
			return executor.Invalid("metadata", "%s is set by DTS", key)
		case reserved[key] || strings.HasPrefix(key, "grpc-"):
			return executor.Invalid("metadata", "%s is set by gRPC", key)
		case c.Metadata[key] != nil:
			return executor.Invalid("metadata", "%s is given twice", key)
		}
		if strings.HasSuffix(key, "-bin") {
			bytes, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return executor.Invalid("metadata", "the value of %s is not base64", name)
			}
			value = string(bytes)
		} else if !valueForm.MatchString(value) {
			return executor.Invalid("metadata", "the value of %s has characters that metadata cannot have", name)
		}
		c.Metadata[key] = []string{value}
	}
	return nil
}
