// Package redisx connects to a Redis of any topology (one server, Sentinel, Cluster, or a server inside the process, which package
// embedded starts) and runs scripts on it.
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

// DB is a pool of connections to one Redis.
type DB struct {
	redis.UniversalClient
	observe   func(script string, took time.Duration, refusal string) // see Options.Observe
	pingAfter time.Duration                                           // see Options.PingAfter
}

// Options describe a connection to Redis. URL is required.
type Options struct {
	// URL is one of
	//   redis://[user:password@]host:port/db        rediss:// uses TLS
	//   unix://[user:password@]/path/to/socket
	//   redis+sentinel://[user:password@]host:port,host:port/master[/db]
	//   redis+cluster://[user:password@]host:port,host:port
	URL string
	// PoolSize is the most connections of the pool; 0 means the default of go-redis.
	PoolSize int
	// FailFast makes a command fail after one second without an answer and does not repeat it. It is for callers
	// that repeat commands themselves and must not be blocked by a Redis that does not answer.
	FailFast bool
	// Dial, if set, opens the connections to a single server (redis, rediss, unix).
	Dial func(ctx context.Context) (net.Conn, error)
	// PingAfter is how long a subscription may receive nothing before Listen sends a ping; 0 means 5 s.
	PingAfter time.Duration
	// Observe, if set, is called after every run of a script with the name of the script, the duration (for calls
	// in a pipeline, an equal share of it) and the code of the refusal ("" if the script did not refuse).
	Observe func(script string, took time.Duration, refusal string)
}

const (
	failFastTimeout = time.Second
	noRetries       = -1 // for go-redis, 0 means its default
)

// Open connects and waits for the first answer of Redis. It returns an error if the URL is invalid or Redis does not
// answer. No error contains the password.
func Open(ctx context.Context, o Options) (*DB, error) {
	db, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := db.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("redis at %s does not answer: %w", Redact(o.URL), err), db.Close())
	}
	return db, nil
}

// New is Open without the wait: it connects when the first command is sent. It returns an error if the URL is invalid.
func New(o Options) (*DB, error) {
	client, err := newClient(o)
	if err != nil {
		return nil, err
	}
	pingAfter := defaultPingAfter
	if strings.HasPrefix(o.URL, hiddenScheme) {
		pingAfter = hiddenPingAfter
	}
	return &DB{UniversalClient: client, observe: o.Observe, pingAfter: cmp.Or(o.PingAfter, pingAfter)}, nil
}

// Number returns the number of the database in use. A cluster has only database 0.
func (db *DB) Number() int {
	if c, ok := db.UniversalClient.(*redis.Client); ok {
		return c.Options().DB
	}
	return 0
}

// ServerOf returns the server that holds a key, and its address. A Redis that is not a cluster is one server, "".
// Error: the cluster cannot be reached, or no server of it holds the key.
func (db *DB) ServerOf(ctx context.Context, key string) (redis.Cmdable, string, error) {
	c, ok := db.UniversalClient.(*redis.ClusterClient)
	if !ok {
		return db.UniversalClient, "", nil
	}
	server, err := c.MasterForKey(ctx, key)
	if err != nil {
		return nil, "", fmt.Errorf("finding the server of %s: %w", key, err)
	}
	return server, server.Options().Addr, nil
}

// Redact returns the URL with its password masked, for messages and logs.
func Redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(invalid URL)"
	}
	return u.Redacted()
}

// newClient returns a client for the scheme of o.URL. It does not connect.
func newClient(o Options) (redis.UniversalClient, error) {
	scheme, _, _ := strings.Cut(o.URL, "://")
	switch scheme {
	case hiddenScheme:
		return newHiddenClient(o)
	case "redis", "rediss", "unix":
		opt, err := redis.ParseURL(o.URL)
		if err != nil {
			var urlErr *url.Error // its text contains the URL with the password
			if errors.As(err, &urlErr) {
				err = urlErr.Err
			}
			return nil, fmt.Errorf("redis URL %s: %w", Redact(o.URL), err)
		}
		opt.PoolSize, opt.ContextTimeoutEnabled = o.PoolSize, true // commands end at the deadline of their context
		if o.FailFast {
			opt.ReadTimeout, opt.MaxRetries = failFastTimeout, noRetries
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
	u, err := parseHosts(o.URL)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(u.path, "/")
	if master == "" {
		return nil, fmt.Errorf("redis URL %q: name the master after the hosts, as in redis+sentinel://a:26379,b:26379/mymaster", Redact(o.URL))
	}
	opt := &redis.FailoverOptions{
		MasterName: master, SentinelAddrs: u.hosts,
		Username: u.user, Password: u.password, PoolSize: o.PoolSize, ContextTimeoutEnabled: true,
	}
	if o.FailFast {
		opt.ReadTimeout, opt.MaxRetries = failFastTimeout, noRetries
	}
	if db != "" {
		if _, err := fmt.Sscanf(db, "%d", &opt.DB); err != nil {
			return nil, fmt.Errorf("redis URL %q: database %q is not a number; write it as mymaster/0", Redact(o.URL), db)
		}
	}
	return redis.NewFailoverClient(opt), nil
}

func newClusterClient(o Options) (redis.UniversalClient, error) {
	u, err := parseHosts(o.URL)
	if err != nil {
		return nil, err
	}
	if u.path != "" {
		return nil, fmt.Errorf("redis URL %q: a cluster has no databases; remove %q", Redact(o.URL), "/"+u.path)
	}
	opt := &redis.ClusterOptions{
		Addrs: u.hosts, Username: u.user, Password: u.password, PoolSize: o.PoolSize, ContextTimeoutEnabled: true,
	}
	if o.FailFast {
		opt.ReadTimeout = failFastTimeout // go-redis counts redirections as retries, so MaxRetries stays
	}
	return redis.NewClusterClient(opt), nil
}

// hostsURL is a parsed URL with several hosts.
type hostsURL struct {
	user, password string
	hosts          []string
	path           string // without the leading slash
}

// parseHosts parses scheme://[user:password@]host:port,host:port[/path]. net/url would read the list of hosts as
// one host with an invalid port, so parseHosts splits the list off first.
func parseHosts(raw string) (hostsURL, error) {
	_, rest, _ := strings.Cut(raw, "://")
	authority, path, _ := strings.Cut(rest, "/")
	var parsed hostsURL
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		u, err := url.Parse("redis://" + authority[:i] + "@host")
		if err != nil {
			return parsed, fmt.Errorf("redis URL %q: user or password is invalid; escape special characters as %%XX", Redact(raw))
		}
		parsed.user = u.User.Username()
		parsed.password, _ = u.User.Password()
		authority = authority[i+1:]
	}
	if authority == "" {
		return parsed, fmt.Errorf("redis URL %q: has no host; write host:port,host:port after the scheme", Redact(raw))
	}
	parsed.hosts = strings.Split(authority, ",")
	parsed.path = path
	return parsed, nil
}

// GetEach reads strings, "" for those that do not exist: with one command, or in a cluster with one for each key. Error: one of
// Redis.
func (db *DB) GetEach(ctx context.Context, keys []string) ([]string, error) {
	texts := make([]string, len(keys))
	if _, cluster := db.UniversalClient.(*redis.ClusterClient); !cluster {
		values, err := db.MGet(ctx, keys...).Result()
		for i, value := range values {
			texts[i], _ = value.(string)
		}
		return texts, err
	}
	pipe := db.Pipeline()
	replies := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		replies[i] = pipe.Get(ctx, key)
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	for i, reply := range replies {
		text, err := reply.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}
