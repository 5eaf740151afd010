package executor

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// decodeRoom is the memory, in bytes, that values decoded from foreign input may take at a time in this process. Few
// bytes on the wire can make values of a hundred times their size.
const decodeRoom = 32 << 20

var decoding = semaphore.NewWeighted(decodeRoom)

// Decode calls decode, which makes values that take about cost bytes and keeps none of them, once there is room for
// them. One that takes more has the whole room. Errors: that of decode; the cause of ctx, if that ends first.
//
// decode must not wait for anybody, and not call Decode.
func Decode(ctx context.Context, cost int, decode func() error) error {
	weight := min(int64(cost), decodeRoom)
	if decoding.Acquire(ctx, weight) != nil {
		return context.Cause(ctx)
	}
	defer decoding.Release(weight)
	return decode()
}
