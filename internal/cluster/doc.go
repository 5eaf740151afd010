// Package cluster knows the nodes: who runs, in which roles, and who has died.
//
// Every node writes an entry into one Redis hash at each beat, and reads everybody's by the same script. The
// time of a beat is Redis's, so that no node's clock matters. A node that missed three of its beats is dead
// to all others: they take over what it did. A node that could not beat for nearly as long must therefore
// have stopped its own work by then, which is what Registry.Guard is for.
//
// A node has a new id at each start (NewNodeID), so "dead" is final for an id as far as its work goes: a
// node that comes back after it counted as dead has ended all work under its earlier Guards.
package cluster
