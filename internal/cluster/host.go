package cluster

import (
	"cmp"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
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
	addressLimit = 16 // of IPv4, and of IPv6, of a machine in the list of nodes
)

// Network returns an id of the network in which this process is. Processes with the same id share their addresses,
// 127.0.0.1 included: they are on the same machine, and in the same container if they are in one. On Linux, it names
// the start of the kernel and the network namespace; elsewhere, or if that cannot be read, the host.
func Network() string { return networkOf(os.DirFS("/proc"), Host()) }

// networkOf is Network for a file system as /proc. Two machines may have namespaces of the same number.
func networkOf(proc fs.FS, host string) string {
	boot, _ := fs.ReadFile(proc, "sys/kernel/random/boot_id")
	namespace, _ := fs.ReadLink(proc, "self/ns/net") // as net:[4026531840]
	return strings.TrimSpace(cmp.Or(strings.TrimSpace(string(boot)), host) + " " + namespace)
}

// Addresses returns the addresses of this machine at which others may reach it: the global unicast addresses of its
// network interfaces, the first 16 of IPv4, then the first 16 of IPv6. It sends nothing over the network.
func Addresses() []netip.Addr {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	return first(addresses)
}

// first returns what Addresses shows of the addresses of network interfaces.
func first(addresses []net.Addr) []netip.Addr {
	four, six := outside(addresses)
	return append(four[:min(len(four), addressLimit)], six[:min(len(six), addressLimit)]...)
}

// outside returns the global unicast addresses of IPv4 and of IPv6.
func outside(addresses []net.Addr) (four, six []netip.Addr) {
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
	return four, six
}

// firstOutside returns the first global unicast address, IPv4 before IPv6, or loopback.
func firstOutside(addresses []net.Addr) string {
	four, six := outside(addresses)
	if all := slices.Concat(four, six); len(all) > 0 {
		return all[0].String()
	}
	return loopback
}
