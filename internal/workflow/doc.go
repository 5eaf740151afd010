// Package workflow decides what follows in a run of a workflow: which steps are released, and how those end that never
// are. It reads no clock, calls no Redis and holds no lock.
package workflow
