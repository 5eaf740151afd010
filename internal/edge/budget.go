package edge

import (
	"net/netip"
	"sync"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
)

// budget is memory that the transfers of a node share, in bytes. The address of a client may hold as much of it as
// stays free for all others: a half while it is alone, the n+1st part beside n-1 others that take all they may. So
// whoever comes finds room, and an address behind which many clients are, such as a proxy's, is not bounded more than
// it must be. (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.)
type budget struct {
	size int64
	mu   sync.Mutex
	used int64
	held map[netip.Prefix]int64
}

func newBudget(size int64) *budget { return &budget{size: size, held: map[netip.Prefix]int64{}} }

// take reserves n bytes for an address, and reports whether it may have them.
func (b *budget) take(from netip.Prefix, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[from]+n > b.size-b.used-n {
		return false
	}
	b.add(from, n)
	return true
}

// takeAnyway counts n bytes that an address must get.
func (b *budget) takeAnyway(from netip.Prefix, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(from, n)
}

// exceedsShare reports whether an address holds more than take ever gives to one.
func (b *budget) exceedsShare(from netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[from] > b.size/2
}

// give returns n bytes that take or takeAnyway counted.
func (b *budget) give(from netip.Prefix, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(from, -n)
}

// refusal says that an address may have no more for what, and what helps.
func (b *budget) refusal(what, helps string) error {
	return task.Errorf(task.CodeOverloaded, "this node is at its limit of %s of %s (transfer-memory), of which an "+
		"address has as much as it leaves to others: %s, here or at another node", config.Size(b.size), what, helps)
}

func (b *budget) add(from netip.Prefix, n int64) {
	b.used += n
	if b.held[from] += n; b.held[from] == 0 {
		delete(b.held, from)
	}
}
