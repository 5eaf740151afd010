// Package address says which addresses the executors that call others may call. It is one set of rules for a node,
// whatever the executor.
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
	"golang.org/x/net/idna"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// reserved are denied unless they are allowed: addresses of the link, at which clouds give credentials to whoever
// asks from a machine, and the addresses at which they do so elsewhere. Sources: RFC 3927 and RFC 4291, 2.5.6; the
// documentation of AWS (EC2, ECS and EKS), Google Cloud, Azure, Alibaba Cloud, Oracle Cloud, Scaleway and OpenStack.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("fd00:ec2::23/128"),
	netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), netip.MustParsePrefix("fd00:42::42/128"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
}

// translated are blocks of IPv6 whose addresses lead to an IPv4 address that is in them, and at which of their bytes:
// NAT64 (RFC 6052), its block for local use, of which a network may use a part (RFC 8215), 6to4 (RFC 3056) and
// stateless translation (RFC 2765).
var translated = []struct {
	block netip.Prefix
	at    [][4]int // several if nobody can tell the length of the prefix
}{
	{netip.MustParsePrefix("64:ff9b::/96"), [][4]int{after96}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [][4]int{after48, after56, after64, after96}},
	{netip.MustParsePrefix("2002::/16"), [][4]int{{2, 3, 4, 5}}},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), [][4]int{after96}},
}

// The bytes of the IPv4 address after a prefix of so many bits. They pass over byte 8 (RFC 6052, 2.2).
var (
	after48 = [4]int{6, 7, 9, 10}
	after56 = [4]int{7, 9, 10, 11}
	after64 = [4]int{9, 10, 11, 12}
	after96 = [4]int{12, 13, 14, 15}
)

// embedded returns the IPv4 addresses to which an IPv6 address may lead. None is one of 0.0.0.0/8, which is no
// destination, but what the prefix or the end of an address looks like.
func embedded(ip netip.Addr) (found []netip.Addr) {
	for _, t := range translated {
		if !t.block.Contains(ip) {
			continue
		}
		b := ip.As16()
		for _, at := range t.at {
			if b[at[0]] != 0 {
				found = append(found, netip.AddrFrom4([4]byte{b[at[0]], b[at[1]], b[at[2]], b[at[3]]}))
			}
		}
	}
	return found
}

const (
	dialTimeout  = 10 * time.Second
	excerptLimit = 200 // bytes of a name that an error quotes
)

// Rules says which addresses may be called: those that are allowed, and of the others those that are not denied. It is
// a config.Section.
type Rules struct {
	Allow, Deny Networks
	LookUp      lookUp
	names       *names
	own         func() []executor.Endpoint // see Protect; nil for none
}

// New makes rules that deny addresses of the link and cloud metadata only.
func New() *Rules { return &Rules{LookUp: net.DefaultResolver.LookupNetIP, names: newNames()} }

// Protect denies the endpoints of the installation, except those of which Allow names the port. nil: there are none.
func (r *Rules) Protect(own func() []executor.Endpoint) { r.own = own }

// Declare adds the settings. Their names are those of the first executor that had them.
func (r *Rules) Declare(flags *pflag.FlagSet) {
	flags.Var(&r.Deny, "http-deny", "addresses that http and grpc tasks may not call, besides those of the link, of "+
		"cloud metadata, of the nodes and of their Redis; 0.0.0.0/0,::/0 for all but the allowed ones")
	flags.Var(&r.Allow, "http-allow", "addresses that http and grpc tasks may call though they are denied; the nodes "+
		"and their Redis only with their port, as 127.0.0.1:8080")
}

// Validate finds nothing: a value that is invalid is refused when it is set.
func (r *Rules) Validate() error { return nil }

// Check returns an error if an address may not be called, or another one that stands for the same host: a connection
// to the unspecified address is one to this host, and some addresses of IPv6 have an IPv4 address in them. Errors:
// *executor.Verdict, final; another one if it cannot be checked now.
func (r *Rules) Check(ctx context.Context, at netip.AddrPort) error {
	ip := at.Addr().Unmap().WithZone("")
	same := []netip.Addr{ip}
	if ip.IsUnspecified() {
		same = append(same, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	}
	same = append(same, embedded(ip)...)
	for _, one := range same {
		if err := r.checkOne(ctx, netip.AddrPortFrom(one, at.Port())); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rules) checkOne(ctx context.Context, at netip.AddrPort) error {
	if err := r.checkOwn(ctx, at); err != nil {
		return err
	}
	switch {
	case r.Allow.contain(at):
		return nil
	case r.Deny.contain(at):
		return denied(at.Addr(), "it is one of http-deny")
	}
	for _, block := range reserved {
		if block.Contains(at.Addr()) {
			return denied(at.Addr(),
				"it gives away the credentials of the machine, or is one of the link only, and is not one of http-allow")
		}
	}
	return nil
}

func denied(address fmt.Stringer, why string) error {
	return executor.Permanent(fmt.Errorf("this task may not call the address %s: %s", address, why))
}

// Dial connects to an address and checks it first: after its name was resolved, and for every redirect. If a name has
// several addresses and some may be called, a failure is not final.
func (r *Rules) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var allowed atomic.Bool
	dialer := net.Dialer{Timeout: dialTimeout}
	dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("the address %q cannot be checked: %w", address, err)
		}
		if err := r.Check(ctx, to); err != nil {
			return err
		}
		allowed.Store(true)
		return nil
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil && allowed.Load() && executor.IsPermanent(err) {
		err = errors.New(err.Error())
	}
	return conn, err
}

// metadataNames have addresses that reserved denies: a resolver of the cloud knows them, which may be that of a proxy.
// Sources: the documentation of Google Cloud, AWS (EC2), IBM Cloud, Exoscale and Tencent Cloud.
var metadataNames = map[string]netip.Addr{
	"metadata.google.internal":   ofMost,
	"metadata.goog":              ofMost,
	"metadata":                   ofMost,
	"instance-data.ec2.internal": ofMost,
	"instance-data":              ofMost,
	"api.metadata.cloud.ibm.com": ofMost,
	"metadata.exoscale.com":      ofMost,
	"metadata.tencentyun.com":    netip.AddrFrom4([4]byte{169, 254, 0, 23}),
}

// ofMost is the address at which most clouds give metadata.
var ofMost = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// CheckHost checks the host of a request that a proxy will make, as Dial sees only the proxy, or that a target has
// named, as there may be a connection already. A name is looked up if addresses are denied, or a part of the
// installation listens at the port: the other names are left to the proxy, so that a resolver that is silent holds up
// no call. One that cannot be looked up is left to it as well, unless addresses are denied. A number in place of a name
// is refused: proxies read it as an address.
func (r *Rules) CheckHost(ctx context.Context, host string, port uint16) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return r.Check(ctx, netip.AddrPortFrom(ip, port))
	}
	name, err := asName(host)
	if err != nil {
		return executor.Permanent(err)
	}
	if ip, known := metadataNames[name]; known {
		return r.Check(ctx, netip.AddrPortFrom(ip, port))
	}
	if len(r.Deny) == 0 && len(r.listening(ctx, port)) == 0 {
		return nil
	}
	found, err := r.names.find(ctx, r.LookUp, name)
	if err != nil && len(r.Deny) > 0 {
		return fmt.Errorf("the address of %s cannot be checked: %w", task.Cut(host, excerptLimit), err)
	}
	for _, ip := range found {
		if err := r.Check(ctx, netip.AddrPortFrom(ip, port)); err != nil {
			return err
		}
	}
	return nil
}

// asName returns the name of a host as it is looked up, in lower case. Error: it is a number.
func asName(host string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if mapped, err := idna.Lookup.ToASCII(name); err == nil { // as net/http does; 169 in wide digits is 169
		name = mapped
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last != "" && strings.ContainsRune("0123456789", rune(last[0])) {
		return "", fmt.Errorf("%q is neither the name of a host nor an address in its usual form",
			task.Cut(host, excerptLimit))
	}
	return name, nil
}
