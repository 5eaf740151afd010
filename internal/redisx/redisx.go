// Package redisx connects to a Redis of any shape (one server, Sentinel, Cluster, or one embedded in the
// process) and runs scripts on it.
package redisx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// DB is a connection pool to one Redis, and the way to run scripts on it.
type DB struct {
	redis.UniversalClient
	observe func(script string, took time.Duration, refusal string)
	quiet   time.Duration
}

// Options says how to connect.
type Options struct {
	// URL is one of
	//   redis://[user:password@]host:port/db        rediss:// the same over TLS
	//   redis+sentinel://[user:password@]host:port,host:port/master[/db]
	//   redis+cluster://[user:password@]host:port,host:port
	URL string
	// PoolSize is the number of connections kept at most; 0 means go-redis's default.
	PoolSize int
	// Brisk gives a command up after a second and does not repeat it: for callers that repeat by themselves, and
	// should not be held up by a Redis that is silent.
	Brisk bool
	// Dial, if set, makes the connections to a single server, instead of the network.
	Dial func(ctx context.Context) (net.Conn, error)
	// Quiet is how long a subscription may hear nothing before Redis is asked for a sign of life; 0 means 5 s.
	Quiet time.Duration
	// Observe, if set, is told of every script run: its name, its duration and the code it refused
	// with ("" if it did not).
	Observe func(script string, took time.Duration, refusal string)
}

const (
	briskTimeout = time.Second
	noRetries    = -1 // as go-redis wants it; 0 means its default
)

// Open connects and waits for the first answer of Redis. Errors: a URL that cannot be understood, or a
// Redis that does not answer.
func Open(ctx context.Context, o Options) (*DB, error) {
	client, err := newClient(o)
	if err != nil {
		return nil, err
	}
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("redis at %s does not answer: %w", Redact(o.URL), err), client.Close())
	}
	return &DB{UniversalClient: client, observe: o.Observe, quiet: cmp.Or(o.Quiet, defaultQuiet)}, nil
}

// Wrap makes a DB of a client that exists already, as tests do.
func Wrap(client redis.UniversalClient) *DB { return &DB{UniversalClient: client, quiet: defaultQuiet} }

// Number is the number of the database in use; a cluster has only database 0.
func (db *DB) Number() int {
	if c, ok := db.UniversalClient.(*redis.Client); ok {
		return c.Options().DB
	}
	return 0
}

// Redact is the URL without its password, for messages and logs.
func Redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	return u.Redacted()
}

func newClient(o Options) (redis.UniversalClient, error) {
	scheme, _, _ := strings.Cut(o.URL, "://")
	switch scheme {
	case "redis", "rediss", "unix":
		opt, err := redis.ParseURL(o.URL)
		if err != nil {
			var shown *url.Error // which repeats the URL, password and all
			if errors.As(err, &shown) {
				err = shown.Err
			}
			return nil, fmt.Errorf("redis URL %s: %w", Redact(o.URL), err)
		}
		opt.PoolSize, opt.ContextTimeoutEnabled = o.PoolSize, true // a context's deadline counts for commands too
		if o.Brisk {
			opt.ReadTimeout, opt.MaxRetries = briskTimeout, noRetries
		}
		if o.Dial != nil {
			opt.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Dial(ctx) }
		}
		return redis.NewClient(opt), nil
	case "redis+sentinel":
		return newSentinelClient(o)
	case "redis+cluster":
		return newClusterClient(o)
	}
	return nil, fmt.Errorf("redis URL %q: the scheme must be redis, rediss, unix, redis+sentinel or redis+cluster", Redact(o.URL))
}

func newSentinelClient(o Options) (redis.UniversalClient, error) {
	at, err := parseMany(o.URL)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(at.path, "/")
	if master == "" {
		return nil, fmt.Errorf("redis URL %q: name the master after the hosts, as in redis+sentinel://a:26379,b:26379/mymaster", Redact(o.URL))
	}
	opt := &redis.FailoverOptions{
		MasterName: master, SentinelAddrs: at.hosts,
		Username: at.user, Password: at.password, PoolSize: o.PoolSize, ContextTimeoutEnabled: true,
	}
	if o.Brisk {
		opt.ReadTimeout, opt.MaxRetries = briskTimeout, noRetries
	}
	if db != "" {
		if _, err := fmt.Sscanf(db, "%d", &opt.DB); err != nil {
			return nil, fmt.Errorf("redis URL %q: database %q is not a number", Redact(o.URL), db)
		}
	}
	return redis.NewFailoverClient(opt), nil
}

func newClusterClient(o Options) (redis.UniversalClient, error) {
	at, err := parseMany(o.URL)
	if err != nil {
		return nil, err
	}
	if at.path != "" {
		return nil, fmt.Errorf("redis URL %q: a cluster has no databases, remove %q", Redact(o.URL), "/"+at.path)
	}
	opt := &redis.ClusterOptions{
		Addrs: at.hosts, Username: at.user, Password: at.password, PoolSize: o.PoolSize, ContextTimeoutEnabled: true,
	}
	if o.Brisk {
		opt.ReadTimeout = briskTimeout // redirections count as retries here, so those stay
	}
	return redis.NewClusterClient(opt), nil
}

// address is a URL with several hosts, taken apart.
type address struct {
	user, password string
	hosts          []string
	path           string
}

// parseMany reads scheme://[user:password@]host:port,host:port[/path]. net/url reads a list of hosts as
// one host with an impossible port, so the list is cut out first.
func parseMany(raw string) (address, error) {
	_, rest, _ := strings.Cut(raw, "://")
	authority, path, _ := strings.Cut(rest, "/")
	var a address
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		u, err := url.Parse("redis://" + authority[:i] + "@host")
		if err != nil {
			return a, fmt.Errorf("redis URL %q: user and password cannot be read", Redact(raw))
		}
		a.user = u.User.Username()
		a.password, _ = u.User.Password()
		authority = authority[i+1:]
	}
	if authority == "" {
		return a, fmt.Errorf("redis URL %q: no host named", Redact(raw))
	}
	a.hosts = strings.Split(authority, ",")
	a.path = path
	return a, nil
}
