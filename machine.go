package dts

import "github.com/dts-sched/dts/internal/api/wire"

// Machine is the machine of a node, with all that runs there. What is not known is nil. In a container, it is the
// machine around it, but for the network, which is that of the container.
type Machine struct {
	CPU     *float64 // share of all processors that was busy, 0 to 1
	Load    *float64 // processes that run, or wait to, as an average over a minute
	Memory  *Space
	Disk    *Space   // the file system where the node works
	Network *Traffic // over all interfaces but loopback
}

// Space is how many bytes there are, and how many of them are in use.
type Space struct{ Used, Total uint64 }

// Traffic is bytes a second.
type Traffic struct{ Received, Sent uint64 }

func machineOf(m *wire.Machine) *Machine {
	if m == nil {
		return nil
	}
	out := &Machine{CPU: m.CPU, Load: m.Load, Memory: spaceOf(m.Memory), Disk: spaceOf(m.Disk)}
	if n := m.Network; n != nil {
		out.Network = &Traffic{Received: n.Received, Sent: n.Sent}
	}
	return out
}

func spaceOf(s *wire.MachineSpace) *Space {
	if s == nil {
		return nil
	}
	return &Space{Used: s.Used, Total: s.Total}
}
