package app

import "github.com/dts-sched/dts/internal/worker/executor"

// own returns where this node, its Redis and the Redis of its executors listen, which tasks do not call unless a
// setting says so.
func (a *App) own() []executor.Endpoint {
	all := append(executor.RedisEndpoints("the Redis of DTS", a.link.Servers()), a.executors.Endpoints()...)
	if a.listener != nil && !a.o.Config.HTTPAllowAPI {
		all = append(all, executor.Endpoint{Part: "the API of this node", Address: a.Addr(), Setting: "http-allow-api"})
	}
	if a.debug != nil {
		all = append(all, executor.Endpoint{Part: "the profile server of this node", Address: a.debug.Addr().String()})
	}
	return all
}
