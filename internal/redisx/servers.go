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

// servers are addresses, HOST:PORT, of servers and sentinels, those that were seen last at the end. The zero value is
// ready for use.
type servers struct {
	mu        sync.Mutex
	addresses []string
}

func (s *servers) add(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, address := range addresses {
		if i := slices.Index(s.addresses, address); i >= 0 {
			s.addresses = slices.Delete(s.addresses, i, i+1)
		}
		s.addresses = append(s.addresses, address)
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
// which this process has connected, and those of which Redis told when the first pool was opened, or at a later
// Discover. Hosts may be names. Beyond 1,024 addresses, those that were not seen for longest are forgotten.
func (l *Link) Servers() []string {
	l.servers.mu.Lock()
	defer l.servers.mu.Unlock()
	return slices.Clone(l.servers.addresses)
}

// Discover asks Redis for servers to which nobody may connect: the nodes of a cluster; else the replicas of the
// primary, the sentinels that the URL does not name, and the port of a server that is reached by a socket of Unix.
// It asks all at once, so that one that is silent keeps no other answer back. What Redis does not say within a second
// stays unknown.
func (db *DB) Discover(ctx context.Context) {
	if strings.HasPrefix(db.url, hiddenScheme) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, discoverLimit)
	defer cancel()
	known := &db.link.servers
	if db.Sharded() {
		known.add(nodesOf(db.ClusterNodes(ctx).Val())...)
		return
	}
	var questions sync.WaitGroup
	questions.Go(func() { known.add(replicasOf(ctx, db)...) })
	if strings.HasPrefix(db.url, "unix://") {
		questions.Go(func() { known.add(portOf(ctx, db)...) })
	}
	if a, err := parse(db.url); err == nil && a.shape == "sentinel" {
		if o, err := a.sentinel(); err == nil {
			for _, address := range o.SentinelAddrs {
				questions.Go(func() { known.add(otherSentinels(ctx, o, address)...) })
			}
		}
	}
	questions.Wait()
}

// portOf returns the address at which a server listens beside its socket of Unix; none if there is none.
func portOf(ctx context.Context, server redis.Cmdable) []string {
	fields, _ := Info(ctx, server, "server")
	if port := fields["tcp_port"]; port != "" && port != "0" {
		return []string{net.JoinHostPort("127.0.0.1", port)}
	}
	return nil
}

// replicasOf returns the addresses of the replicas of a primary.
func replicasOf(ctx context.Context, primary redis.Cmdable) (found []string) {
	fields, _ := Info(ctx, primary, "replication")
	for name, value := range fields {
		if strings.HasPrefix(name, "slave") && strings.HasPrefix(value, "ip=") {
			found = append(found, replicaOf(value))
		}
	}
	return found
}

// nodesOf returns the addresses in the answer to CLUSTER NODES, with lines as ID 10.0.0.2:6379@16379,NAME FLAGS ...
func nodesOf(answer string) (addresses []string) {
	for line := range strings.Lines(answer) {
		_, rest, _ := strings.Cut(line, " ")
		address, _, _ := strings.Cut(rest, "@")
		if i := strings.LastIndexByte(address, ':'); i > 0 {
			addresses = append(addresses, net.JoinHostPort(address[:i], address[i+1:]))
		}
	}
	return addresses
}

// replicaOf returns the address in ip=10.0.0.2,port=6379,state=online,...
func replicaOf(line string) string {
	ip, rest, _ := strings.Cut(strings.TrimPrefix(line, "ip="), ",port=")
	port, _, _ := strings.Cut(rest, ",")
	return net.JoinHostPort(ip, port)
}

// otherSentinels asks one of the sentinels of a URL for the others.
func otherSentinels(ctx context.Context, o *redis.FailoverOptions, address string) (found []string) {
	sentinel := redis.NewSentinelClient(&redis.Options{
		Addr: address, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig,
		MaxRetries: noRetries, ContextTimeoutEnabled: true,
	})
	others, _ := sentinel.Sentinels(ctx, o.MasterName).Result()
	_ = sentinel.Close()
	for _, other := range others {
		found = append(found, net.JoinHostPort(other["ip"], other["port"]))
	}
	return found
}
