// Package lease gives out the right to do something alone for a while: a distributed lock on one Redis key,
// with a fencing token.
//
// A lease has an owner and a time to live. While it is held, a goroutine renews it; if the holder dies, it
// runs out by itself and somebody else may take it. Each new acquisition gets a higher token than all before
// it, also after the key expired, since the counter behind it never does.
//
// # What is guaranteed
//
//   - At any moment, Redis holds at most one owner of a lease.
//   - The context of a Held ends before the lease can be somebody else's. The holder trusts its lease from
//     the moment it *began* to ask Redis for it, never from the moment of the answer, and for a little less
//     than the lease's time to live.
//   - Release removes the caller's own lease only.
//
// # What is not
//
// A context cannot stop code that does not look at it, nor can it end while the whole process is stopped: a
// process that is suspended for a while and then continued may run a few more instructions before its timers
// fire. What must never be done by two at once therefore carries the fence (Held.Fence) and compares it
// inside the same Redis script that writes.
//
// Tokens are as durable as the Redis behind them. If it loses its newest writes, as after a failover to a
// replica that lagged, a token may be given out twice; two owners never share a fence all the same.
package lease
