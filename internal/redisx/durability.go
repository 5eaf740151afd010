package redisx

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/config"
)

// Replicate waits until replicas have whatever the servers of keys have written so far, and returns an error for each key. It writes the
// keys, so that there is a newer write to wait for, which replicas get after all others.
func (db *DB) Replicate(ctx context.Context, d config.Durability, keys []string) []error {
	errs := make([]error, len(keys))
	type server struct {
		redis.Cmdable
		places []int
	}
	servers := make(map[string]*server)
	for i, key := range keys {
		found, name, err := db.ServerOf(ctx, key)
		if err != nil {
			errs[i] = err
			continue
		}
		if servers[name] == nil {
			servers[name] = &server{Cmdable: found}
		}
		servers[name].places = append(servers[name].places, i)
	}
	for _, s := range servers {
		err := replicate(ctx, s, d, keys[s.places[0]])
		for _, i := range s.places {
			errs[i] = err
		}
	}
	return errs
}

// replicate writes a key and waits on the same connection until replicas have it.
func replicate(ctx context.Context, server redis.Cmdable, d config.Durability, key string) error {
	pipe := server.Pipeline()
	written := pipe.Set(ctx, key, "1", 0)
	waited := pipe.Do(ctx, "WAIT", d.Replicas, d.Timeout.Milliseconds())
	_, _ = pipe.Exec(ctx) // each command holds its own error
	if err := written.Err(); err != nil {
		return err
	}
	replicas, err := waited.Int()
	if err == nil && replicas < d.Replicas {
		err = fmt.Errorf("%d of %d replicas have confirmed within %s", replicas, d.Replicas, d.Timeout)
	}
	return err
}

// AsyncReplicas returns how many replicas the server of a key has, if it acknowledges writes though none of them follows; else, and if the
// server does not tell, 0.
func (db *DB) AsyncReplicas(ctx context.Context, key string) int {
	const setting = "min-replicas-to-write"
	server, _, err := db.ServerOf(ctx, key)
	if err != nil || server.ConfigGet(ctx, setting).Val()[setting] != "0" {
		return 0
	}
	replicas, _ := strconv.Atoi(infoFields(server.Info(ctx, "replication").Val())["connected_slaves"])
	return replicas
}
