package app

import (
	"context"
	"net/netip"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// serversPause is App.serversPause, but in tests.
const serversPause = 10 * time.Second

// own returns where the nodes, their Redis and the Redis of the executors listen. Tasks do not call them unless a
// setting says so, and no target sends a task to them.
func (a *App) own() []executor.Endpoint {
	all := append(executor.RedisEndpoints("the Redis of DTS", a.link.Servers()), a.executors.Endpoints()...)
	if a.listener != nil {
		all = append(all, executor.Endpoint{
			Part: "the API of the node that ran it", Address: a.Addr(), Also: a.nodeIP(), Setting: "http-allow-api",
			Allowed: a.o.Config.HTTPAllowAPI,
		})
	}
	if a.debug != nil {
		all = append(all, executor.Endpoint{
			Part: "the profile server of the node that ran it", Address: a.debug.Addr().String(),
		})
	}
	return append(all, a.ofNeighbours()...)
}

// nodeIP returns the address of the settings at which others reach this node, as behind NAT; none if they have none.
func (a *App) nodeIP() []netip.Addr {
	ip, err := netip.ParseAddr(a.o.Config.NodeIP)
	if err != nil {
		return nil
	}
	return []netip.Addr{ip.Unmap().WithZone("")}
}

// listens says where this node listens.
func (a *App) listens() *cluster.Listens {
	l := &cluster.Listens{API: a.Addr(), Network: a.network, Machine: a.nodeIP()}
	if at, err := netip.ParseAddrPort(l.API); err == nil && at.Addr().IsUnspecified() {
		l.Machine = append(l.Machine, cluster.Addresses()...)
	}
	if a.debug != nil {
		l.Profiles = a.debug.Addr().String()
	}
	return l
}

// neighbours are the endpoints of the other nodes.
type neighbours struct {
	at        time.Time // of the view of the list of nodes
	endpoints []executor.Endpoint
}

// ofNeighbours returns the endpoints of the other nodes that live, as of the last heartbeat of this one.
func (a *App) ofNeighbours() []executor.Endpoint {
	view := a.registry.View()
	if known := a.neighbours.Load(); known != nil && known.at.Equal(view.At) {
		return known.endpoints
	}
	found := &neighbours{at: view.At}
	for _, n := range view.Nodes {
		if n.ID == a.node || n.Listens == nil {
			continue
		}
		away := n.Listens.Network != a.network
		if isAddress(n.Listens.API) {
			found.endpoints = append(found.endpoints, executor.Endpoint{
				Part: "the API of node " + n.ID, Address: n.Listens.API, Also: n.Listens.Machine, Away: away,
				Setting: "http-allow-api", Allowed: a.o.Config.HTTPAllowAPI,
			})
		}
		if isAddress(n.Listens.Profiles) {
			found.endpoints = append(found.endpoints, executor.Endpoint{
				Part: "the profile server of node " + n.ID, Address: n.Listens.Profiles, Away: away,
			})
		}
	}
	a.neighbours.Store(found)
	return found.endpoints
}

// isAddress reports whether a text is an address that need not be looked up.
func isAddress(text string) bool {
	_, err := netip.ParseAddrPort(text)
	return err == nil
}

// watchServers learns of servers and sentinels that are added to Redis, until ctx ends.
func (a *App) watchServers(ctx context.Context) error {
	for ctx.Err() == nil {
		a.store.DB.Discover(ctx)
		a.executors.Discover(ctx)
		_ = clock.Sleep(ctx, a.serversPause)
	}
	return nil
}
