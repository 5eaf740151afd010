package cluster

import (
	"net"
	"net/netip"
	"os"
)

// Host is the name of this machine, or "localhost" if it has none.
func Host() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

// IP is the address of this machine to show to others: the first one that is not loopback, IPv4 before IPv6, or
// 127.0.0.1. It only asks the system for its interfaces.
func IP() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return loopback
	}
	return firstOutside(addresses)
}

const loopback = "127.0.0.1"

func firstOutside(addresses []net.Addr) string {
	found := loopback
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			return prefix.Addr().String()
		}
		if found == loopback {
			found = prefix.Addr().String()
		}
	}
	return found
}
