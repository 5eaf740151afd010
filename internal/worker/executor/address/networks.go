package address

import (
	"fmt"
	"net/netip"
	"strings"
)

// Networks are blocks of addresses; as a flag, separated by commas.
type Networks []netip.Prefix

func (n Networks) contain(ip netip.Addr) bool {
	for _, block := range n {
		if block.Contains(ip) {
			return true
		}
	}
	return false
}

// String is the form that Set reads.
func (n Networks) String() string {
	texts := make([]string, len(n))
	for i, block := range n {
		texts[i] = block.String()
	}
	return strings.Join(texts, ",")
}

// Set reads 10.0.0.0/8,192.168.1.1,fd00::/8.
func (n *Networks) Set(text string) error {
	var parsed Networks
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
func (n *Networks) Type() string { return "CIDR,..." }
