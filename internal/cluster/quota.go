package cluster

import "slices"

// Quota returns how many of the partitions node self should lead when they are divided among ids: the same
// number for each node, and one more for the first nodes in order of id until all partitions are assigned.
// self counts as one of the nodes even if it is not in ids. The quotas of all nodes that see the same ids add
// up to partitions.
func Quota(ids []string, self string, partitions int) int {
	all := append(slices.Clone(ids), self)
	slices.Sort(all)
	all = slices.Compact(all)
	share := partitions / len(all)
	if slices.Index(all, self) < partitions%len(all) {
		share++
	}
	return share
}
