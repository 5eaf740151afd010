// Package chaos runs DTS under faults and judges afterwards whether it kept its promises.
//
// A round starts a Redis, a fleet of nodes and workers, a workload and a sequence of faults, all chosen by a seed. When the faults are over it
// lets everything settle, and compares what DTS says with a history that was collected outside of Redis: what clients were answered, and
// which handler was called when, for which attempt. The same seed makes the same choices; what the operating system makes of them differs.
//
//	make chaos                        rounds for 5 minutes
//	make chaos-long                   rounds until it is stopped
//	SEED=7 make chaos                 the round with this seed, once
//	FAULT=kill,freeze make chaos      these faults only, one in a round, and how long each took to recover from
//	FAULT=any make chaos              the same with all faults
//	DEPLOYMENT=standalone make chaos  this kind of Redis only
package chaos
