package redisx

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	serversLimit  = 1024        // addresses that are remembered
	discoverLimit = time.Second // for the questions of discover
)

// servers are addresses, HOST:PORT, of servers and sentinels, the newest last. The zero value is ready for use.
type servers struct {
	mu        sync.Mutex
	addresses []string
}

func (s *servers) add(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, address := range addresses {
		if !slices.Contains(s.addresses, address) {
			s.addresses = append(s.addresses, address)
		}
	}
	s.addresses = s.addresses[max(0, len(s.addresses)-serversLimit):]
}

// addRemote adds the address to which a connection leads, unless it is a socket of Unix or inside the process.
func (s *servers) addRemote(conn net.Conn) {
	if to, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		s.add(to.String())
	}
}

// Servers returns the addresses, HOST:PORT, of the servers and sentinels of this Redis: those of the URL, those to
// which this process has connected, the nodes of the cluster, and the replicas and sentinels that there were when the
// first pool was opened. Hosts may be names. Beyond 1,024 addresses, the oldest are forgotten.
func (l *Link) Servers() []string {
	l.servers.mu.Lock()
	defer l.servers.mu.Unlock()
	return slices.Clone(l.servers.addresses)
}

// discover asks a Redis that is no cluster, once for each Link, for servers to which nobody connects: its replicas,
// the sentinels that the URL does not name, and the port of a server that is reached by a socket of Unix. What it
// does not say stays unknown.
func (db *DB) discover(ctx context.Context, url string) {
	if db.Sharded() || strings.HasPrefix(url, hiddenScheme) || !db.link.discovered.CompareAndSwap(false, true) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, discoverLimit)
	defer cancel()
	known := &db.link.servers
	if strings.HasPrefix(url, "unix://") {
		fields, _ := Info(ctx, db, "server")
		if port := fields["tcp_port"]; port != "" && port != "0" {
			known.add(net.JoinHostPort("127.0.0.1", port))
		}
	}
	fields, _ := Info(ctx, db, "replication")
	for name, value := range fields {
		if strings.HasPrefix(name, "slave") && strings.HasPrefix(value, "ip=") {
			known.add(replicaOf(value))
		}
	}
	if a, err := parse(url); err == nil && a.shape == "sentinel" {
		known.add(otherSentinels(ctx, a)...)
	}
}

// replicaOf returns the address in ip=10.0.0.2,port=6379,state=online,...
func replicaOf(line string) string {
	ip, rest, _ := strings.Cut(strings.TrimPrefix(line, "ip="), ",port=")
	port, _, _ := strings.Cut(rest, ",")
	return net.JoinHostPort(ip, port)
}

// otherSentinels asks the first sentinel of a URL that answers for the others.
func otherSentinels(ctx context.Context, a address) (found []string) {
	o, err := a.sentinel()
	if err != nil {
		return nil
	}
	for _, address := range o.SentinelAddrs {
		sentinel := redis.NewSentinelClient(&redis.Options{
			Addr: address, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig,
			MaxRetries: noRetries, ContextTimeoutEnabled: true,
		})
		others, err := sentinel.Sentinels(ctx, o.MasterName).Result()
		_ = sentinel.Close()
		if err != nil {
			continue
		}
		for _, other := range others {
			found = append(found, net.JoinHostPort(other["ip"], other["port"]))
		}
		return found
	}
	return nil
}
