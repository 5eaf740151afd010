package cluster

// SlotsFor returns how many slots a task of a queue can hold on the node: those of the largest pool that serves the
// queue, and one on a worker by HTTP.
func (n Node) SlotsFor(queue string) int {
	slots := n.Capacity
	if largest, pools := n.Largest[queue]; pools {
		slots = min(slots, largest)
	}
	if n.Via != "" {
		slots = min(slots, 1)
	}
	return slots
}
