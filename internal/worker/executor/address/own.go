package address

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// checkOwn returns an error if a part of the installation listens at an address, unless a block of http-allow names
// its port: one without a port is for other services at the same address. The names of parts are looked up only if
// the port is theirs.
func (r *Rules) checkOwn(ctx context.Context, at netip.AddrPort) error {
	if r.own == nil || r.Allow.name(at) {
		return nil
	}
	for _, e := range r.own() {
		host, port, err := net.SplitHostPort(e.Address)
		if err != nil || port != strconv.Itoa(int(at.Port())) {
			continue
		}
		found, err := r.resolve(ctx, host)
		if err != nil {
			return fmt.Errorf("the address %s cannot be checked: it may be that of %s, %s: %w",
				at, e.Part, task.Cut(e.Address, excerptLimit), err)
		}
		if slices.ContainsFunc(found, func(ip netip.Addr) bool { return leadsTo(at.Addr(), ip, e.Machine) }) {
			return denied(at, e.Part+" listens there; "+remedy(e, at)+" would allow it")
		}
	}
	return nil
}

// remedy is the setting that opens an endpoint to tasks.
func remedy(e executor.Endpoint, at netip.AddrPort) string {
	text := "--http-allow " + at.String()
	if e.Setting != "" {
		text = "--" + e.Setting + ", or " + text + ","
	}
	return text
}

// resolve returns the addresses of a host; the unspecified one if there is no host.
func (r *Rules) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "" {
		return []netip.Addr{netip.IPv6Unspecified()}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	return r.LookUp(ctx, "ip", host)
}

// leadsTo reports whether a connection to an address reaches a part that listens at another one: at every address of
// this machine if that is unspecified, or machine says so of a part that is on it.
func leadsTo(to, listens netip.Addr, machine bool) bool {
	listens = listens.Unmap().WithZone("")
	if to == listens {
		return true
	}
	return (listens.IsUnspecified() || machine && onThisMachine(listens)) && onThisMachine(to)
}

// onThisMachine reports whether an address is one of this machine. One that cannot be compared is taken for one.
func onThisMachine(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		block, err := netip.ParsePrefix(a.String())
		return err == nil && block.Addr().Unmap().WithZone("") == ip
	})
}
