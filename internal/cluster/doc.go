// Package cluster keeps the list of nodes: which nodes run, in which roles, and which have died.
//
// At each heartbeat, a node writes its entry into one Redis hash and reads all entries, in the same script.
// Redis sets the time of a heartbeat, so the clocks of nodes do not matter. A node that missed three of its
// heartbeats counts as dead, and the other nodes take over its work. Therefore a node that cannot send
// heartbeats must stop its own work before that time; Registry.Guard provides the context for it.
//
// A node gets a new id at each start (NewNodeID). A node that counted as dead and returns has ended all work
// that ran under its earlier guards, so other nodes may treat that work as abandoned.
package cluster
