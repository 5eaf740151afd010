package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/dts-sched/dts/internal/lease"
	"github.com/dts-sched/dts/internal/redisx"
)

// A plain lock: one of all processes that want to migrate does it.
func Example() {
	server, err := miniredis.Run() // any Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	db, err := redisx.Open(ctx, redisx.Options{URL: "redis://" + server.Addr()})
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()

	held, err := lease.New(lease.Options{DB: db, Key: "migration", TTL: 30 * time.Second}).Acquire(ctx)
	if err != nil {
		panic(err)
	}
	migrate(held.Context(), held.Token()) // the context ends if the lock is lost

	_, err = lease.New(lease.Options{DB: db, Key: "migration"}).Acquire(ctx)
	fmt.Println("somebody else has it:", errors.Is(err, lease.ErrHeld))

	if err := held.Release(ctx); err != nil {
		panic(err)
	}
	fmt.Println(context.Cause(held.Context()))
	// Output:
	// migrating under token 1
	// somebody else has it: true
	// the lease was released
}

func migrate(_ context.Context, token int64) { fmt.Println("migrating under token", token) }
