package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// shards is a Redis Cluster of one or more primaries without replicas.
type shards struct {
	servers []*redisServer
	url     string
}

const clusterSlots = 16384

// startShards starts a Redis Cluster of n primaries, which ends with the round.
func (b *bench) startShards(ctx context.Context, n int) (*shards, error) {
	dir, err := os.MkdirTemp(b.redis.dir, "cluster-")
	if err != nil {
		return nil, err
	}
	c := &shards{}
	var addrs []string
	for i := range n {
		s, err := startShard(ctx, fmt.Sprintf("%s/%d", dir, i))
		if err != nil {
			return nil, err
		}
		b.cleanup(s.stop)
		c.servers, addrs = append(c.servers, s), append(addrs, s.addr)
	}
	c.url = "redis+cluster://" + strings.Join(addrs, ",")
	return c, c.assemble(ctx)
}

// startShard starts a server that is to be one of a cluster, with a directory of its own.
func startShard(ctx context.Context, dir string) (*redisServer, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	for range redisStartTries {
		var s *redisServer
		if s, err = launchShard(ctx, dir); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("starting a redis-server of a cluster: %w", err)
}

func launchShard(ctx context.Context, dir string) (*redisServer, error) {
	bus, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	return launchRedis(ctx, dir, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus))
}

// assemble introduces the servers to each other, and shares out the slots.
func (c *shards) assemble(ctx context.Context) error {
	n := len(c.servers)
	for i, s := range c.servers {
		host, port, err := net.SplitHostPort(s.addr)
		if err != nil {
			return err
		}
		bus, err := s.db.ConfigGet(ctx, "cluster-port").Result()
		if err != nil {
			return err
		}
		err = errors.Join(
			s.db.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(),
			s.db.ClusterAddSlotsRange(ctx, i*clusterSlots/n, (i+1)*clusterSlots/n-1).Err(),
			c.servers[0].db.Do(ctx, "CLUSTER", "MEET", host, port, bus["cluster-port"]).Err(),
		)
		if err != nil {
			return err
		}
	}
	return poll(ctx, 20*time.Millisecond, 20*time.Second, "the cluster", func(ctx context.Context) (bool, error) {
		for _, s := range c.servers {
			info, err := s.db.ClusterInfo(ctx).Result()
			known := strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n))
			if err != nil || !known || !strings.Contains(info, "cluster_state:ok") {
				return false, err
			}
		}
		return true, nil
	})
}

// client returns a client of the cluster that ends with the round.
func (b *bench) client(c *shards) *redis.ClusterClient {
	var addrs []string
	for _, s := range c.servers {
		addrs = append(addrs, s.addr)
	}
	db := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	b.cleanup(db.Close)
	return db
}

// consumption is what servers have used up to a moment, or between two.
type consumption struct {
	commands float64
	cpu      float64   // seconds
	output   float64   // bytes that Redis has sent
	each     []float64 // cpu, by server
	at       time.Time
}

// spent reads what all servers have used, with one command of each.
func (c *shards) spent(ctx context.Context) (consumption, error) {
	var sum consumption
	for _, s := range c.servers {
		info, err := s.info(ctx, "everything")
		if err != nil {
			return sum, err
		}
		var values [4]float64
		for i, name := range []string{"total_commands_processed", "total_net_output_bytes", "used_cpu_user", "used_cpu_sys"} {
			if values[i], err = strconv.ParseFloat(info[name], 64); err != nil {
				return sum, fmt.Errorf("%s: %w", name, err)
			}
		}
		sum.commands += values[0]
		sum.output += values[1]
		sum.cpu += values[2] + values[3]
		sum.each = append(sum.each, values[2]+values[3])
	}
	sum.at = now()
	return sum, nil
}

// since is what was used after an earlier reading.
func (s consumption) since(before consumption) consumption {
	d := consumption{
		commands: s.commands - before.commands, cpu: s.cpu - before.cpu, output: s.output - before.output,
		each: nil, at: s.at,
	}
	for i := range s.each {
		d.each = append(d.each, s.each[i]-before.each[i])
	}
	return d
}
