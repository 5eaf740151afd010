package address

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// checkOwn returns an error if a part of the installation listens at an address, unless a block of http-allow names
// its port: one without a port is for other services at the same address. The names of parts are looked up only if
// the port is theirs. What is Allowed is checked only for a context of Sent.
func (r *Rules) checkOwn(ctx context.Context, at netip.AddrPort) error {
	if r.Allow.name(at) {
		return nil
	}
	here := thisMachine()
	for _, e := range r.listening(ctx, at.Port()) {
		host, _, _ := net.SplitHostPort(e.Address) // listening has done so
		found, err := r.resolve(ctx, host)
		if err != nil {
			return fmt.Errorf("the address %s cannot be checked: it may be that of %s, %s: %w",
				at, e.Part, task.Cut(e.Address, excerptLimit), err)
		}
		if slices.ContainsFunc(found, func(ip netip.Addr) bool { return leadsTo(at.Addr(), ip, e, here) }) {
			return denied(at, e.Part+" listens there; "+remedy(e, at))
		}
	}
	return nil
}

// listening returns the endpoints of the installation that have a port and are denied in this context.
func (r *Rules) listening(ctx context.Context, port uint16) (found []executor.Endpoint) {
	if r.own == nil {
		return nil
	}
	want := strconv.Itoa(int(port))
	for _, e := range r.own() {
		_, its, err := net.SplitHostPort(e.Address)
		if err == nil && its == want && (!e.Allowed || IsSent(ctx)) {
			found = append(found, e)
		}
	}
	return found
}

// sentKey marks a context of Sent.
type sentKey struct{}

// Sent returns a context for the check of an address that the target of a task has named, as in a redirect to another
// origin.
func Sent(ctx context.Context) context.Context { return context.WithValue(ctx, sentKey{}, true) }

// IsSent reports whether Sent made a context.
func IsSent(ctx context.Context) bool { return ctx.Value(sentKey{}) != nil }

// remedy says what opens an endpoint to tasks.
func remedy(e executor.Endpoint, at netip.AddrPort) string {
	text := "--http-allow " + at.String()
	if e.Allowed {
		return "only the URL of a task may name it, and no redirect, unless there is " + text
	}
	if e.Setting != "" {
		text = "--" + e.Setting + ", as dtsd dev has it by default, or " + text + ","
	}
	return text + " would allow it"
}

// resolve returns the addresses of a host; the unspecified one if there is no host.
func (r *Rules) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "" {
		return []netip.Addr{netip.IPv6Unspecified()}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	return r.names.find(ctx, r.LookUp, host)
}

// leadsTo reports whether a connection to an address reaches a part that listens at another one: at every address of
// its machine if that is unspecified, or e.Machine says so of a part that is on this machine.
func leadsTo(to, listens netip.Addr, e executor.Endpoint, here machine) bool {
	listens = listens.Unmap().WithZone("")
	if to == listens || slices.Contains(e.Also, to) {
		return !e.Away || !here().has(to)
	}
	return !e.Away && (listens.IsUnspecified() || e.Machine && here().mayHave(listens)) && here().mayHave(to)
}

// machine returns the addresses of this machine, which it reads when it is first called.
type machine = func() addresses

func thisMachine() machine {
	return sync.OnceValue(func() (found addresses) {
		all, err := net.InterfaceAddrs()
		found.unknown = err != nil
		for _, a := range all {
			if block, err := netip.ParsePrefix(a.String()); err == nil {
				found.known = append(found.known, block.Addr().Unmap().WithZone(""))
			}
		}
		return found
	})
}

// addresses are those of this machine.
type addresses struct {
	known   []netip.Addr
	unknown bool // they cannot be read
}

// has reports whether an address is known to be one of this machine.
func (a addresses) has(ip netip.Addr) bool {
	return ip.IsLoopback() || ip.IsUnspecified() || slices.Contains(a.known, ip)
}

// mayHave reports whether an address is one of this machine, or may be, as its addresses cannot be read.
func (a addresses) mayHave(ip netip.Addr) bool { return a.unknown || a.has(ip) }
