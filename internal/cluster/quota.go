package cluster

import "slices"

// Quota is the fair share of self when partitions are spread over the nodes ids: the same number for each,
// and one more for the first of them, in order of id, until all are given out. self counts as one of them
// even if it is not in ids. The quotas of all nodes that see the same ids add up to partitions.
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
