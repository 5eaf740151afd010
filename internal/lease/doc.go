// Package lease grants nodes the right to lead a partition for a limited time, with a fencing token. The locks that users
// of DTS take are in package locks.
//
// A lease has an owner and a time to live. While it is held, a goroutine renews it. If the holder dies, the
// lease expires and another owner can acquire it. Each acquisition gets a higher token than all earlier ones,
// even after the lease expired, because the key with the newest token has no expiry.
//
// # Guarantees
//
//   - At any moment, Redis holds at most one owner of a lease.
//   - The context of a Held ends before another owner can acquire the lease. The holder trusts its lease from
//     the moment it *began* to ask Redis for it, never from the moment of the answer, and for a little less
//     than the lease's time to live.
//   - Renewal and release concern the caller's own lease only.
//
// # Not guaranteed
//
// A context cannot stop code that does not check it, and it cannot end while the whole process is stopped: a
// process that is suspended and continued may execute a few more instructions before its timers fire.
// Therefore every write that two owners must never both make carries the fence (Held.Fence) and compares it
// inside the Redis script that writes.
//
// Tokens are as durable as the Redis behind them. If Redis loses its newest writes, as after a failover to a
// replica that lagged, it may grant a token a second time. Two owners still never share a fence, because the
// fence contains the owner.
package lease
