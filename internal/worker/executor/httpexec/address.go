package httpexec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// metadata are the addresses at which clouds give credentials to whoever asks from a machine. They are denied unless they are allowed.
// Sources: the documentation of AWS (EC2, ECS and EKS), Google Cloud, Azure, Alibaba Cloud and OpenStack.
var metadata = networks{
	netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("169.254.170.2/32"), netip.MustParsePrefix("169.254.170.23/32"),
	netip.MustParsePrefix("fe80::a9fe:a9fe/128"), netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("fd00:ec2::23/128"), netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
}

// addresses says which addresses may be called: those that are allowed, and of the others those that are not denied.
type addresses struct {
	allow, deny networks
	lookUp      func(ctx context.Context, network, host string) ([]netip.Addr, error) // of net.DefaultResolver, but in tests
}

func newAddresses() *addresses { return &addresses{lookUp: net.DefaultResolver.LookupNetIP} }

func (a *addresses) Declare(flags *pflag.FlagSet) {
	flags.Var(&a.deny, "http-deny", "addresses that http tasks may not call, besides those of cloud metadata; 0.0.0.0/0,::/0 for all but the allowed ones")
	flags.Var(&a.allow, "http-allow", "addresses that http tasks may call though they are denied")
}

// Validate finds nothing: a value that is invalid is refused when it is set.
func (a *addresses) Validate() error { return nil }

// check returns an error if an address may not be called, or another one that stands for the same host: a connection to the unspecified
// address is one to this host, and an address of NAT64 (RFC 6052) has an IPv4 address in it.
func (a *addresses) check(ip netip.Addr) error {
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
		if err := a.checkOne(one); err != nil {
			return err
		}
	}
	return nil
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func (a *addresses) checkOne(ip netip.Addr) error {
	switch {
	case a.allow.contain(ip):
		return nil
	case a.deny.contain(ip):
		return executor.Permanent(fmt.Errorf("this node may not call the address %s: it is one of http-deny", ip))
	case metadata.contain(ip):
		return executor.Permanent(fmt.Errorf("this node may not call the address %s: it gives away the credentials of the machine, and is not one of http-allow", ip))
	}
	return nil
}

// dial connects to an address and checks it first: after its name was resolved, and for every redirect. If a name has several addresses
// and some may be called, a failure is not final.
func (a *addresses) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var allowed atomic.Bool
	dialer := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("the address %q cannot be checked: %w", address, err)
		}
		if err := a.check(to.Addr()); err != nil {
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

// checkHost checks the host of a request that a proxy will make, as dial sees only the proxy. A name that this node cannot resolve is
// left to the proxy, unless addresses are denied. A number in place of a name is refused: proxies read it as an address.
func (a *addresses) checkHost(ctx context.Context, host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return a.check(ip)
	}
	name := strings.TrimSuffix(host, ".")
	if last := name[strings.LastIndexByte(name, '.')+1:]; last != "" && strings.ContainsRune("0123456789", rune(last[0])) {
		return executor.Permanent(fmt.Errorf("%q is neither the name of a host nor an address in its usual form", host))
	}
	found, err := a.lookUp(ctx, "ip", name)
	if err != nil && len(a.deny) > 0 {
		return fmt.Errorf("the address of %s cannot be checked: %w", task.Cut(host, excerptLimit), err)
	}
	for _, ip := range found {
		if err := a.check(ip); err != nil {
			return err
		}
	}
	return nil
}

// guard checks what a proxy is asked for.
type guard struct {
	http.RoundTripper
	addresses *addresses
	proxy     func(*http.Request) (*url.URL, error)
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if via, err := g.proxy(req); err == nil && via != nil {
		for _, host := range []string{req.URL.Host, req.Host} { // the proxy gets the second if there is one
			if err := g.checkNamed(req.Context(), host); err != nil {
				if req.Body != nil {
					_ = req.Body.Close()
				}
				return nil, err
			}
		}
	}
	return g.RoundTripper.RoundTrip(req)
}

func (g guard) checkNamed(ctx context.Context, host string) error {
	if host == "" {
		return nil
	}
	return g.addresses.checkHost(ctx, (&url.URL{Host: host}).Hostname())
}

// networks are blocks of addresses; as a flag, separated by commas.
type networks []netip.Prefix

func (n networks) contain(ip netip.Addr) bool {
	for _, block := range n {
		if block.Contains(ip) {
			return true
		}
	}
	return false
}

// String is the form that Set reads.
func (n networks) String() string {
	texts := make([]string, len(n))
	for i, block := range n {
		texts[i] = block.String()
	}
	return strings.Join(texts, ",")
}

// Set reads 10.0.0.0/8,192.168.1.1,fd00::/8.
func (n *networks) Set(text string) error {
	var parsed networks
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		block, err := parseBlock(item)
		if err != nil {
			return err
		}
		parsed = append(parsed, block)
	}
	*n = parsed
	return nil
}

func parseBlock(text string) (netip.Prefix, error) {
	if block, err := netip.ParsePrefix(text); err == nil && (!block.Addr().Is4In6() || block.Bits() >= 96) {
		if block.Addr().Is4In6() {
			block = netip.PrefixFrom(block.Addr().Unmap(), block.Bits()-96)
		}
		return block.Masked(), nil
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		ip = ip.Unmap().WithZone("")
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	return netip.Prefix{}, fmt.Errorf("%q is no address or block of addresses, such as 10.0.0.0/8", text)
}

// Type is what --help calls the value.
func (n *networks) Type() string { return "CIDR,..." }
