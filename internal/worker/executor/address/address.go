// Package address says which addresses the executors that call others may call. It is one set of rules for a node, whatever the executor.
package address

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// metadata are the addresses at which clouds give credentials to whoever asks from a machine. They are denied unless they are allowed.
// Sources: the documentation of AWS (EC2, ECS and EKS), Google Cloud, Azure, Alibaba Cloud and OpenStack.
var metadata = Networks{
	netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("169.254.170.2/32"), netip.MustParsePrefix("169.254.170.23/32"),
	netip.MustParsePrefix("fe80::a9fe:a9fe/128"), netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("fd00:ec2::23/128"), netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
}

const (
	dialTimeout  = 10 * time.Second
	excerptLimit = 200 // bytes of a name that an error quotes
)

// Rules says which addresses may be called: those that are allowed, and of the others those that are not denied. It is a config.Section.
type Rules struct {
	Allow, Deny Networks
	LookUp      func(ctx context.Context, network, host string) ([]netip.Addr, error) // of net.DefaultResolver, but in tests
}

// New makes rules that deny cloud metadata only.
func New() *Rules { return &Rules{LookUp: net.DefaultResolver.LookupNetIP} }

// Declare adds the settings. Their names are those of the first executor that had them.
func (r *Rules) Declare(flags *pflag.FlagSet) {
	flags.Var(&r.Deny, "http-deny", "addresses that http and grpc tasks may not call, besides those of cloud metadata; 0.0.0.0/0,::/0 for all but the allowed ones")
	flags.Var(&r.Allow, "http-allow", "addresses that http and grpc tasks may call though they are denied")
}

// Validate finds nothing: a value that is invalid is refused when it is set.
func (r *Rules) Validate() error { return nil }

// Check returns an error if an address may not be called, or another one that stands for the same host: a connection to the unspecified
// address is one to this host, and an address of NAT64 (RFC 6052) has an IPv4 address in it.
func (r *Rules) Check(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	same := []netip.Addr{ip}
	switch {
	case ip.IsUnspecified():
		same = append(same, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	case nat64.Contains(ip):
		b := ip.As16()
		same = append(same, netip.AddrFrom4([4]byte(b[12:])))
	}
	for _, one := range same {
		if err := r.checkOne(one); err != nil {
			return err
		}
	}
	return nil
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func (r *Rules) checkOne(ip netip.Addr) error {
	switch {
	case r.Allow.contain(ip):
		return nil
	case r.Deny.contain(ip):
		return executor.Permanent(fmt.Errorf("this node may not call the address %s: it is one of http-deny", ip))
	case metadata.contain(ip):
		return executor.Permanent(fmt.Errorf("this node may not call the address %s: it gives away the credentials of the machine, and is not one of http-allow", ip))
	}
	return nil
}

// Dial connects to an address and checks it first: after its name was resolved, and for every redirect. If a name has several addresses
// and some may be called, a failure is not final.
func (r *Rules) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var allowed atomic.Bool
	dialer := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("the address %q cannot be checked: %w", address, err)
		}
		if err := r.Check(to.Addr()); err != nil {
			return err
		}
		allowed.Store(true)
		return nil
	}}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil && allowed.Load() && executor.IsPermanent(err) {
		err = errors.New(err.Error())
	}
	return conn, err
}

// CheckHost checks the host of a request that a proxy will make, as Dial sees only the proxy. A name that this node cannot resolve is
// left to the proxy, unless addresses are denied. A number in place of a name is refused: proxies read it as an address.
func (r *Rules) CheckHost(ctx context.Context, host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return r.Check(ip)
	}
	name := strings.TrimSuffix(host, ".")
	if last := name[strings.LastIndexByte(name, '.')+1:]; last != "" && strings.ContainsRune("0123456789", rune(last[0])) {
		return executor.Permanent(fmt.Errorf("%q is neither the name of a host nor an address in its usual form", host))
	}
	found, err := r.LookUp(ctx, "ip", name)
	if err != nil && len(r.Deny) > 0 {
		return fmt.Errorf("the address of %s cannot be checked: %w", task.Cut(host, excerptLimit), err)
	}
	for _, ip := range found {
		if err := r.Check(ip); err != nil {
			return err
		}
	}
	return nil
}
