package cluster

import (
	"crypto/rand"
	"strings"
)

const (
	hostPart   = 40 // characters of the host's name in a node id
	randomPart = 8
)

// NewNodeID makes the id of a node that starts on host: "<host>-<8 random characters>", of a-z, 0-9 and "-".
// It is new at each start, so that a node that was restarted is never mistaken for its past self.
func NewNodeID(host string) string {
	return sanitise(host) + "-" + strings.ToLower(rand.Text()[:randomPart])
}

func sanitise(host string) string {
	clean := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(host))
	clean = strings.Trim(clean[:min(len(clean), hostPart)], "-")
	if clean == "" {
		return "node"
	}
	return clean
}
