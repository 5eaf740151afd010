package queue

import "time"

// Info describes one queue.
type Info struct {
	Name        string
	Paused      bool
	PausedBy    string        // who paused it; "" if nobody knows
	PausedAt    time.Time     // in whole seconds; zero if it is not paused, or that cannot be read
	PauseNote   string        // why it is paused; "" if nobody said
	Capacity    int           // how many tasks may wait, in DTS and for a worker; package control reads it; 0: any number
	Waiting     int           // due tasks that wait in DTS until the queue has room; package control counts them
	Size        int           // all deliveries in the queue, including those that asynq will deliver again
	Pending     int           // deliveries that wait for a worker
	OfAsynq     bool          // the delivery that is taken next is of another asynq client; if none waits, another one is
	Active      int           // deliveries taken by a worker
	Archived    int           // dead letters
	Processed   int           // deliveries handled today (UTC), including failed ones
	Failed      int           // deliveries that failed today (UTC)
	Latency     time.Duration // how long the oldest pending delivery has waited, by the clock of Redis, in whole ms
	MemoryUsage int64         // bytes, an estimate
}
