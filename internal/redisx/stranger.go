package redisx

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"
)

// strangersGet is how Redis begins its answer to who may send no command: without a password, without the right to,
// or from another machine.
var strangersGet = []string{"NOAUTH", "NOPERM", "DENIED"}

// ErrCertificate means that the node has a certificate for Redis, so that it cannot say what others get.
var ErrCertificate = errors.New("connections of this node show a certificate")

// TakesStrangers reports whether a server reads its data for whoever connects: it asks for DBSIZE on a connection
// without user and password. Errors: ErrCertificate, or one of Redis.
func TakesStrangers(ctx context.Context, server *redis.Client) (bool, error) {
	o := server.Options()
	if o.TLSConfig != nil && len(o.TLSConfig.Certificates) > 0 {
		return false, ErrCertificate
	}
	stranger := redis.NewClient(&redis.Options{
		Network: o.Network, Addr: o.Addr, Dialer: o.Dialer, PoolSize: 1, MaxRetries: noRetries, ContextTimeoutEnabled: true,
		Protocol: 2, DisableIdentity: true, // so that DBSIZE is the first command
	})
	err := stranger.DBSize(ctx).Err()
	_ = stranger.Close()
	if slices.ContainsFunc(strangersGet, func(code string) bool { return redis.HasErrorPrefix(err, code) }) {
		return false, nil
	}
	return err == nil, err
}
