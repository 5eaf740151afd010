package address

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Network is a block of addresses, with one port or all of them.
type Network struct {
	Block netip.Prefix
	Port  uint16 // 0: every port
}

// Networks are blocks of addresses; as a flag, separated by commas.
type Networks []Network

// contain reports whether a block has an address, with its port or with every port.
func (n Networks) contain(at netip.AddrPort) bool {
	for _, one := range n {
		if one.Block.Contains(at.Addr()) && (one.Port == 0 || one.Port == at.Port()) {
			return true
		}
	}
	return false
}

// name reports whether a block has an address and names its port.
func (n Networks) name(at netip.AddrPort) bool {
	for _, one := range n {
		if one.Port != 0 && one.Port == at.Port() && one.Block.Contains(at.Addr()) {
			return true
		}
	}
	return false
}

// String is the form that Set reads.
func (n Networks) String() string {
	texts := make([]string, len(n))
	for i, one := range n {
		texts[i] = one.String()
	}
	return strings.Join(texts, ",")
}

// String is 10.0.0.0/8, 10.0.0.0/8:80 or [fd00::/8]:80.
func (n Network) String() string {
	switch {
	case n.Port == 0:
		return n.Block.String()
	case n.Block.Addr().Is4():
		return fmt.Sprintf("%s:%d", n.Block, n.Port)
	}
	return fmt.Sprintf("[%s]:%d", n.Block, n.Port)
}

// Set reads 10.0.0.0/8,192.168.1.1,fd00::/8,127.0.0.1:8080,[::1]:8080.
func (n *Networks) Set(text string) error {
	var parsed Networks
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		one, err := parseNetwork(item)
		if err != nil {
			return err
		}
		parsed = append(parsed, one)
	}
	*n = parsed
	return nil
}

func parseNetwork(text string) (Network, error) {
	if block, ok := parseBlock(text); ok {
		return Network{Block: block}, nil
	}
	colon := max(0, strings.LastIndexByte(text, ':'))
	block, ok := parseBlock(strings.TrimSuffix(strings.TrimPrefix(text[:colon], "["), "]"))
	port, err := strconv.ParseUint(strings.TrimPrefix(text[colon:], ":"), 10, 16)
	if !ok || err != nil || port == 0 {
		return Network{}, fmt.Errorf(
			"%q is no address or block of addresses, such as 10.0.0.0/8, 192.168.1.1 or 127.0.0.1:8080", text)
	}
	return Network{block, uint16(port)}, nil
}

func parseBlock(text string) (_ netip.Prefix, ok bool) {
	if block, err := netip.ParsePrefix(text); err == nil && (!block.Addr().Is4In6() || block.Bits() >= 96) {
		if block.Addr().Is4In6() {
			block = netip.PrefixFrom(block.Addr().Unmap(), block.Bits()-96)
		}
		return block.Masked(), true
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		ip = ip.Unmap().WithZone("")
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	return netip.Prefix{}, false
}

// Type is what --help calls the value.
func (n *Networks) Type() string { return "CIDR[:PORT],..." }
