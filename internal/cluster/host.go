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

const (
	loopback     = "127.0.0.1"
	addressLimit = 32 // of a machine, in the list of nodes
)

// Addresses returns the addresses of this machine at which others may reach it: the global unicast addresses of its
// network interfaces, IPv4 before IPv6, 32 at most. It sends nothing over the network.
func Addresses() []netip.Addr {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	all := outside(addresses)
	return all[:min(len(all), addressLimit)]
}

// outside returns the global unicast addresses, IPv4 before IPv6.
func outside(addresses []net.Addr) []netip.Addr {
	var four, six []netip.Addr
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || !prefix.Addr().IsGlobalUnicast():
		case prefix.Addr().Is4():
			four = append(four, prefix.Addr())
		default:
			six = append(six, prefix.Addr())
		}
	}
	return append(four, six...)
}

// firstOutside returns the first global unicast address, IPv4 before IPv6, or loopback.
func firstOutside(addresses []net.Addr) string {
	if all := outside(addresses); len(all) > 0 {
		return all[0].String()
	}
	return loopback
}
