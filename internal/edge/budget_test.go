package edge

import (
	"math"
	"net/netip"
	"testing"
)

func TestBudget_LeavesOthersAsMuchAsOneHolds(t *testing.T) {
	t.Parallel()
	for greedy, share := range map[int]int64{1: 500, 2: 333, 3: 250, 9: 100} {
		b := newBudget(1000)
		address := func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32) }
		for range 1000 { // all take what they get
			for i := range greedy {
				b.take(address(i), 1)
			}
		}
		for i := range greedy {
			if got := b.held[address(i)]; math.Abs(float64(got-share)) > 1 {
				t.Errorf("beside %d others an address holds %d, want about %d", greedy-1, got, share)
			}
		}
		if !b.take(other, share/2) || b.take(other, share/2) {
			t.Errorf("beside %d who take all they may, another one does not get a half of their share", greedy)
		}
		b.give(other, share/2)
		for i := range greedy {
			b.give(address(i), b.held[address(i)])
		}
		if b.used != 0 || len(b.held) != 0 {
			t.Errorf("%d bytes are left, of %v", b.used, b.held)
		}
	}
}
