package cluster

import (
	"crypto/rand"
	"strings"
)

const (
	hostPart   = 40 // most characters of the host name in a node id
	randomPart = 8  // random characters in a node id
)

// NewNodeID returns the id of a node that starts on host: "<host>-<8 random characters>", of a-z, 0-9 and "-".
// It differs at each start, so that a restarted node is never mistaken for its previous run.
func NewNodeID(host string) string {
	return sanitise(host) + "-" + strings.ToLower(rand.Text()[:randomPart])
}

// sanitise returns host in lower case with every character other than a-z and 0-9 replaced by "-", cut to
// hostPart characters, or "node" if nothing is left.
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
