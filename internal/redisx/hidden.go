package redisx

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// hidden are the servers of this process that have no port: how to connect to each, by the host of its URL.
var (
	hidden      sync.Map // string -> func(context.Context) (net.Conn, error)
	hiddenCount atomic.Int64
)

// hiddenScheme is the scheme of the URLs of servers without a port.
const hiddenScheme = "embedded"

const (
	hiddenPool      = 1000          // connections, so that nobody waits for one: go-redis shares the timers of such waits among bubbles
	hiddenPingAfter = 6 * time.Hour // such a connection does not break by itself
)

// AddHidden makes a URL for a server of this process that has no port, such as that of package embedded. Clients in this process connect
// with dial, until remove is called.
func AddHidden(dial func(context.Context) (net.Conn, error)) (url string, remove func()) {
	name := strconv.FormatInt(hiddenCount.Add(1), 10)
	hidden.Store(name, dial)
	return hiddenScheme + "://" + name, func() { hidden.Delete(name) }
}

// newHiddenClient returns a client of a server without a port. Error: it does not run in this process.
func newHiddenClient(o Options) (redis.UniversalClient, error) {
	dial, ok := hidden.Load(strings.TrimPrefix(o.URL, hiddenScheme+"://"))
	if !ok {
		return nil, fmt.Errorf("redis URL %q: no such Redis runs in this process; use a URL with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://", o.URL)
	}
	o.Succession = nil
	o.PoolSize = max(o.PoolSize, hiddenPool)
	if o.Dial == nil {
		o.Dial = dial.(func(context.Context) (net.Conn, error))
	}
	o.URL = "redis://127.0.0.1:0/0" // an address and not a host name, because go-redis resolves host names
	return newClient(o)
}
