// Package redisx connects to a Redis of any topology (one server, Sentinel, Cluster, or a server inside the process, which package
// embedded starts) and runs scripts on it.
package redisx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// DB is a pool of connections to one Redis.
type DB struct {
	redis.UniversalClient
	link      *Link
	url       string                                                  // see Options.URL
	dialed    bool                                                    // by Options.Dial
	observe   func(script string, took time.Duration, refusal string) // see Options.Observe
	pingAfter time.Duration                                           // see Options.PingAfter
	shared    shared                                                  // see ListenShared
}

// Options describe a connection to Redis. URL is required.
type Options struct {
	// URL is one of
	//   redis://[user:password@]host:port/db
	//   unix://[user:password@]/path/to/socket
	//   redis+sentinel://[user:password@]host:port,host:port/master[/db]
	//   redis+cluster://[user:password@]host:port,host:port
	// With rediss in place of redis, all connections use TLS. Parameters follow a "?": ca_file, cert_file and key_file name PEM files
	// for TLS; sentinel_username and sentinel_password are for the sentinels; the others are those of go-redis.
	URL string
	// Link is shared by the pools of a process to the same Redis; nil makes one for this pool, which logs nothing.
	Link *Link
	// PoolSize is the most connections of the pool, unless the URL has a smaller pool_size; 0 means the default of go-redis.
	PoolSize int
	// FailFast makes a command fail after one second without an answer and does not repeat it. It is for callers
	// that repeat commands themselves and must not be blocked by a Redis that does not answer.
	FailFast bool
	// Dial, if set, opens the connections to a single server (redis, rediss, unix).
	Dial func(ctx context.Context) (net.Conn, error)
	// PingAfter is how long a subscription may receive nothing before Listen sends a ping; 0 means 5 s.
	PingAfter time.Duration
	// Succession, if set, has connections to another primary than before wait, unless the client is Vital. It is not for servers inside the
	// process.
	Succession *Succession
	Vital      bool
	// Observe, if set, is called after every run of a script with the name of the script, the duration (for calls
	// in a pipeline, an equal share of it) and the code of the refusal ("" if the script did not refuse).
	Observe func(script string, took time.Duration, refusal string)
}

const (
	failFastTimeout = time.Second
	noRetries       = -1 // for go-redis, 0 means its default
)

// Open connects and waits for the first answer of Redis, for 5 s at most. Errors: ErrUnusable if the URL is invalid, or Redis refuses and
// waiting does not help; another one if Redis does not answer. No error contains the password.
func Open(ctx context.Context, o Options) (*DB, error) {
	db, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := db.Meet(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if db.link.discovered.CompareAndSwap(false, true) {
		db.Discover(ctx)
	}
	return db, nil
}

// New is Open without the wait: it connects when the first command is sent. Error: ErrUnusable if the URL is invalid.
func New(o Options) (*DB, error) {
	if o.Link == nil {
		o.Link = NewLink(nil)
	}
	client, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	db := &DB{UniversalClient: client, link: o.Link, url: o.URL, dialed: o.Dial != nil, observe: o.Observe, pingAfter: cmp.Or(o.PingAfter, defaultPingAfter)}
	if strings.HasPrefix(o.URL, hiddenScheme) { // it always answers
		db.pingAfter = cmp.Or(o.PingAfter, hiddenPingAfter)
		return db, nil
	}
	client.AddHook(hook{link: o.Link, whole: db.Sharded(), dials: &dials{}, kept: o.kept("")})
	if server, ok := client.(*redis.Client); ok && o.Succession != nil {
		client.AddHook(gate{succession: o.Succession, server: server, vital: o.Vital})
	}
	return db, nil
}

// Link is the way to Redis that this pool shares with others.
func (db *DB) Link() *Link { return db.link }

// Number returns the number of the database in use. A cluster has only database 0.
func (db *DB) Number() int {
	if c, ok := db.UniversalClient.(*redis.Client); ok {
		return c.Options().DB
	}
	return 0
}

// Sharded reports whether keys are on several servers, each with a clock of its own.
func (db *DB) Sharded() bool {
	_, cluster := db.UniversalClient.(*redis.ClusterClient)
	return cluster
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

// EachServer calls do for each server that holds some of the keys, with the server and the places of its keys, for all servers at once: one that is
// silent does not hold up what is done with the others. It returns when all calls have. Error: the cluster cannot be reached; then it
// calls nothing.
func (db *DB) EachServer(ctx context.Context, keys []string, do func(server redis.Cmdable, places []int)) error {
	servers, err := db.byServer(ctx, keys)
	if err != nil {
		return err
	}
	var calls sync.WaitGroup
	for _, s := range servers {
		if len(servers) == 1 {
			do(s.server, s.places)
			break
		}
		calls.Go(func() { do(s.server, s.places) })
	}
	calls.Wait()
	return nil
}

// portion is a server and the places of the keys that it holds.
type portion struct {
	server redis.Cmdable
	places []int
}

// byServer returns who holds keys, by the address of the server. Error: the cluster cannot be reached.
func (db *DB) byServer(ctx context.Context, keys []string) (map[string]*portion, error) {
	servers := make(map[string]*portion)
	for i, key := range keys {
		server, address, err := db.ServerOf(ctx, key)
		if err != nil {
			return nil, err
		}
		if servers[address] == nil {
			servers[address] = &portion{server: server}
		}
		servers[address].places = append(servers[address].places, i)
	}
	return servers, nil
}

// newClient returns a client for the scheme of o.URL. It does not connect.
func newClient(o Options) (redis.UniversalClient, error) {
	scheme, _, _ := strings.Cut(o.URL, "://")
	open, ok := map[string]func(Options, address) (redis.UniversalClient, error){
		"redis": newSingleClient, "rediss": newSingleClient, "unix": newSingleClient,
		"redis+sentinel": newSentinelClient, "rediss+sentinel": newSentinelClient,
		"redis+cluster": newClusterClient, "rediss+cluster": newClusterClient,
	}[scheme]
	switch {
	case scheme == hiddenScheme:
		return newHiddenClient(o)
	case !ok:
		return nil, fmt.Errorf("redis URL %q: the scheme must be redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster",
			Redact(o.URL))
	}
	a, err := parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redis URL %q: %w", Redact(o.URL), err)
	}
	client, err := open(o, a)
	if err != nil {
		return nil, fmt.Errorf("redis URL %q: %w", Redact(o.URL), err)
	}
	return client, nil
}

// onConnect returns what is to be done with a new connection to an address; "" stands for the only server.
func (o Options) onConnect(address string) func(context.Context, *redis.Conn) error {
	if o.Succession == nil {
		return nil
	}
	return func(ctx context.Context, conn *redis.Conn) error {
		return o.Succession.admit(ctx, conn, address, o.Vital)
	}
}

// kept returns what reports whether commands for an address waited for a primary to settle; nil if they never do.
func (o Options) kept(address string) func(since time.Time) bool {
	if o.Succession == nil || o.Vital {
		return nil
	}
	return func(since time.Time) bool { return o.Succession.kept(address, since) }
}

// poolSize returns the size of the pool, of which the URL says ofURL; 0 stands for none.
func (o Options) poolSize(ofURL int) int {
	if o.PoolSize == 0 || ofURL == 0 {
		return max(o.PoolSize, ofURL)
	}
	return min(o.PoolSize, ofURL)
}

// bound sets what all clients have in common: the size of the pool, that commands end at the deadline of their context, and for FailFast how long
// an answer may take.
func (o Options) bound(poolSize *int, endAtDeadline *bool, answer *time.Duration) {
	*poolSize, *endAtDeadline = o.poolSize(*poolSize), true
	if o.FailFast {
		*answer = failFastTimeout
	}
}

func newSingleClient(o Options, a address) (redis.UniversalClient, error) {
	opt, err := a.single()
	if err != nil {
		return nil, err
	}
	o.bound(&opt.PoolSize, &opt.ContextTimeoutEnabled, &opt.ReadTimeout)
	if o.FailFast {
		opt.MaxRetries = noRetries
	}
	if o.Dial != nil {
		opt.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Dial(ctx) }
	} else if opt.Network != "unix" {
		o.Link.servers.add(opt.Addr)
	}
	opt.OnConnect = o.onConnect("")
	return redis.NewClient(opt), nil
}

func newSentinelClient(o Options, a address) (redis.UniversalClient, error) {
	opt, err := a.sentinel()
	if err != nil {
		return nil, err
	}
	o.bound(&opt.PoolSize, &opt.ContextTimeoutEnabled, &opt.ReadTimeout)
	if o.FailFast {
		opt.MaxRetries = noRetries
	}
	opt.OnConnect = o.onConnect("")
	o.Link.servers.add(opt.SentinelAddrs...)
	return redis.NewFailoverClient(opt), nil
}

// mapLifetime is how long a client of a cluster uses its map of the cluster if no answer makes it read that again before.
const mapLifetime = 10 * time.Second

func newClusterClient(o Options, a address) (redis.UniversalClient, error) {
	opt, err := a.cluster()
	if err != nil {
		return nil, err
	}
	o.bound(&opt.PoolSize, &opt.ContextTimeoutEnabled, &opt.ReadTimeout)
	opt.ClusterStateReloadInterval = mapLifetime // MaxRetries stays, as go-redis counts redirections as retries
	opt.NewClient = func(server *redis.Options) *redis.Client {
		server.OnConnect = o.onConnect(server.Addr)
		return redis.NewClient(server)
	}
	o.Link.servers.add(opt.Addrs...)
	client := redis.NewClusterClient(opt)
	client.OnNewNode(func(server *redis.Client) {
		o.Link.servers.add(server.Options().Addr)
		address := server.Options().Addr
		server.AddHook(hook{link: o.Link, address: address, dials: &dials{}, kept: o.kept(address)})
		server.AddHook(mapReloader{reload: client.ReloadState})
		if o.Succession != nil {
			server.AddHook(gate{succession: o.Succession, address: server.Options().Addr, server: server, vital: o.Vital})
		}
	})
	return client, nil
}

// GetEach reads strings, "" for those that do not exist or have another type: with one command, or in a cluster with one
// for each key. Error: one of Redis; what was read is returned with it.
func (db *DB) GetEach(ctx context.Context, keys []string) ([]string, error) {
	texts := make([]string, len(keys))
	if !db.Sharded() {
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
	var failure error
	for i, reply := range replies {
		text, err := reply.Result()
		if err != nil && !errors.Is(err, redis.Nil) && !IsDamage(err) {
			failure = fmt.Errorf("reading %s: %w", keys[i], err)
		}
		texts[i] = text
	}
	return texts, failure
}

// CountExisting counts the keys that exist: with one command, or in a cluster with one for each key. Under PassingOver,
// keys of servers that are passed over do not exist. Error: one of Redis.
func (db *DB) CountExisting(ctx context.Context, keys []string) (int, error) {
	if !db.Sharded() {
		n, err := db.Exists(ctx, keys...).Result()
		return int(n), err
	}
	pipe := db.Pipeline()
	replies := make([]*redis.IntCmd, len(keys))
	for i, key := range keys {
		replies[i] = pipe.Exists(ctx, key)
	}
	err := ExecReads(ctx, pipe)
	n := 0
	for _, reply := range replies {
		n += int(reply.Val())
	}
	return n, err
}
