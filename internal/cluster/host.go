package cluster

import (
	"net"
	"net/netip"
	"os"
)

// Host returns the host name of this machine, or "localhost" if it has none.
func Host() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

// IP returns the address of this machine to show to other nodes: the first global unicast address of its network
// interfaces, IPv4 before IPv6, or 127.0.0.1 if there is none. It sends nothing over the network.
func IP() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return loopback
	}
	return firstOutside(addresses)
}

const loopback = "127.0.0.1"

// firstOutside returns the first global unicast address, IPv4 before IPv6, or loopback.
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
