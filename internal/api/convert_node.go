package api

import (
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
)

func nodeOf(n cluster.Node) wire.Node {
	return wire.Node{
		ID: n.ID, Name: wire.Given(n.Name), Host: n.Host, IP: n.IP, Version: n.Version, Roles: list(n.Roles),
		State: wire.NodeState(n.State), Labels: nodeLabels(n.Labels), Machine: machineOf(n.Machine),
		Capacity: n.Capacity, Running: n.Running, Tasks: new(n.Tasks),
		Partitions: list(n.Partitions), Queues: weights(n.Queues),
		Types: n.Types, Cordon: cordonOf(n.Cordon),
		Via: wire.Given(n.Via), CPU: n.CPU, Memory: n.Memory, Pid: wire.Given(n.PID), Address: wire.Given(n.Address()),
		StartedAt: wire.At(n.StartedAt), LastBeat: wire.At(n.LastBeat),
	}
}

func cordonOf(c *cluster.Cordon) *wire.NodeCordon {
	if c == nil {
		return nil
	}
	out := &wire.NodeCordon{
		Of: c.Of, By: wire.Given(c.By), Note: wire.Given(c.Note), Since: wire.At(c.Since), Obeyed: c.Obeyed,
		Drain: wire.Given(c.Drain),
	}
	if !c.Until.IsZero() {
		out.Until = new(wire.At(c.Until))
	}
	return out
}

func nodeLabels(l config.Labels) *wire.NodeLabels {
	if len(l) == 0 {
		return nil
	}
	return new(wire.NodeLabels(l))
}

func machineOf(m *cluster.Machine) *wire.Machine {
	if m == nil {
		return nil
	}
	out := &wire.Machine{CPU: m.CPU, Load: m.Load, Memory: spaceOf(m.Memory), Disk: spaceOf(m.Disk)}
	if n := m.Network; n != nil {
		out.Network = &wire.MachineTraffic{Received: n.Received, Sent: n.Sent}
	}
	return out
}

func spaceOf(s *cluster.Space) *wire.MachineSpace {
	if s == nil {
		return nil
	}
	return &wire.MachineSpace{Used: s.Used, Total: s.Total}
}

// machineFrom is what a worker by HTTP tells of its machine; nil for nothing.
func machineFrom(m *wire.Machine) *cluster.Machine {
	if m == nil {
		return nil
	}
	out := &cluster.Machine{CPU: m.CPU, Load: m.Load, Memory: spaceFrom(m.Memory), Disk: spaceFrom(m.Disk)}
	if n := m.Network; n != nil {
		out.Network = &cluster.Traffic{Received: n.Received, Sent: n.Sent}
	}
	return out
}

func spaceFrom(s *wire.MachineSpace) *cluster.Space {
	if s == nil {
		return nil
	}
	return &cluster.Space{Used: s.Used, Total: s.Total}
}
