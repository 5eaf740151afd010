// Package cluster keeps the list of nodes: which nodes run, in which roles, and which have died.
//
// At each heartbeat, a node writes its entry into one Redis hash and reads all entries, in the same script.
// Redis sets the time of a heartbeat, so the clocks of nodes do not matter. A node that missed three of its
// heartbeats counts as dead. The list is for people, and for sharing the partitions fairly: what a node leads and runs
// is under leases of its own.
//
// A node gets a new id at each start (NewNodeID).
package cluster
