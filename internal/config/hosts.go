package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// hostNameLimit is the most characters of a host's name.
const hostNameLimit = 253

// Hosts are names of hosts, without ports.
type Hosts []string

// String is the form that Set reads.
func (h Hosts) String() string { return strings.Join(h, ",") }

// Set reads dts.example.com,dts.internal.
func (h *Hosts) Set(text string) error {
	*h = split(text, ",")
	return nil
}

// Type is what --help calls the value.
func (h *Hosts) Type() string { return "HOST,..." }

func (h Hosts) validate(setting string) error {
	for _, name := range h {
		if _, err := netip.ParseAddr(name); err == nil {
			continue
		}
		if len(name) > hostNameLimit || !namePattern.MatchString(name) {
			return fmt.Errorf("%s: %q must be the name of a host without a port, as in dts.example.com", setting, name)
		}
	}
	return nil
}
