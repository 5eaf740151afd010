package queue

import "time"

// Info is what is known of one queue.
type Info struct {
	Name        string
	Paused      bool
	Size        int           // all deliveries in the queue, those that asynq will try again included
	Pending     int           // wait for a worker
	Active      int           // taken by a worker
	Archived    int           // dead letters
	Processed   int           // deliveries done today (UTC), well or badly
	Failed      int           // of those, badly
	Latency     time.Duration // how long the oldest pending delivery has waited
	MemoryUsage int64         // bytes, an estimate
}
