package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Durability says how many replicas must have a write before it counts as made. The zero value asks for none.
type Durability struct {
	Replicas int
	Timeout  time.Duration // how long they may take
}

// What a Durability may be.
const (
	DefaultReplicationTimeout = time.Second
	replicasLimit             = 16
	minReplicationTimeout     = 10 * time.Millisecond
	maxReplicationTimeout     = 2 * time.Second // less than the client waits for an answer
)

// noDurability is the text of the zero Durability.
const noDurability = "none"

// String is the form that Set reads.
func (d Durability) String() string {
	if d == (Durability{}) {
		return noDurability
	}
	return fmt.Sprintf("wait=%d,%s", d.Replicas, d.Timeout)
}

var errDurability = errors.New(`durability must be "none" or "wait=REPLICAS" or "wait=REPLICAS,TIMEOUT" as in wait=1,500ms, with 1 to 16 replicas and 10ms to 2s`)

// Set reads none, wait=N or wait=N,TIMEOUT.
func (d *Durability) Set(text string) error {
	*d = Durability{}
	if text == noDurability {
		return nil
	}
	rest, ok := strings.CutPrefix(text, "wait=")
	count, timeout, timed := strings.Cut(rest, ",")
	n, err := strconv.Atoi(count)
	read := Durability{Replicas: n, Timeout: DefaultReplicationTimeout}
	if err == nil && timed {
		read.Timeout, err = time.ParseDuration(timeout)
	}
	if !ok || err != nil || n < 1 || n > replicasLimit || read.Timeout < minReplicationTimeout || read.Timeout > maxReplicationTimeout {
		return errDurability
	}
	*d = read
	return nil
}

// Type is what --help calls the value.
func (d *Durability) Type() string { return "none|wait=N[,TIMEOUT]" }
