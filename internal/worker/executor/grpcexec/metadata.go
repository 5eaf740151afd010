package grpcexec

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/dts-sched/dts/internal/worker/executor"
)

const idempotencyKey = "idempotency-key"

// reserved cannot be set by the payload: gRPC sets it. What begins with dts- names the attempt, and receivers can trust it.
var reserved = map[string]bool{"content-type": true, "user-agent": true, "te": true, "connection": true, "host": true, "transfer-encoding": true}

var (
	keyForm   = regexp.MustCompile(`^[0-9a-z_.-]+$`)
	valueForm = regexp.MustCompile(`^[\x20-\x7e]*$`)
)

// setMetadata reads metadata as https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md has it: keys are in lower case; values are
// ASCII, or bytes if the key ends with -bin, which the payload has in base64.
func (c *call) setMetadata(pairs map[string]string) error {
	c.metadata = make(metadata.MD, len(pairs)+5)
	for name, value := range pairs {
		key := strings.ToLower(name)
		switch {
		case !keyForm.MatchString(key):
			return executor.Invalid("metadata", "%q is not a key of metadata", name)
		case strings.HasPrefix(key, "dts-"):
			return executor.Invalid("metadata", "%s is set by DTS", key)
		case reserved[key] || strings.HasPrefix(key, "grpc-"):
			return executor.Invalid("metadata", "%s is set by gRPC", key)
		case c.metadata[key] != nil:
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
		c.metadata[key] = []string{value}
	}
	return nil
}

// metadataOf is what goes with the call of an attempt. The payload's own idempotency key wins.
func (c *call) metadataOf(a executor.Attempt) metadata.MD {
	md := c.metadata.Copy()
	md.Set("dts-task-id", a.ID)
	md.Set("dts-attempt", strconv.Itoa(a.Number))
	md.Set("dts-namespace", a.Namespace)
	if tick := a.Tick(); tick != "" {
		md.Set("dts-tick", tick)
	}
	if md[idempotencyKey] == nil {
		md.Set(idempotencyKey, a.IdempotencyKey())
	}
	return md
}
