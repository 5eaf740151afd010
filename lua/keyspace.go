package lua

import "strconv"

// DefaultPrefix begins the keys of an installation that has no prefix of its own.
const DefaultPrefix = "dts"

// Keyspace makes the names of an installation's keys and channels. Its methods are generated from the table Keys of
// package contract.
type Keyspace struct {
	prefix   string // ends with a colon
	database int
}

// What patterns in KeyTypes begin with: keys of the installation, of a partition, and of a queue of asynq.
const (
	OfInstallation = "dts:"
	OfPartition    = "dts:{p}:"
	OfAsynqQueue   = "asynq:{q}:"
)

// NewKeyspace returns the keyspace of an installation; prefix "" means DefaultPrefix. All databases of a Redis share its
// channels, so the names of channels contain the number of a database other than 0.
func NewKeyspace(prefix string, database int) Keyspace {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return Keyspace{prefix: prefix + ":", database: database}
}

// AnyWake names the channels of the leaders of all partitions, with a text in place of the number of the partition.
func (k Keyspace) AnyWake(number string) string { return k.channel("wake:" + number) }

func (k Keyspace) channel(name string) string {
	if k.database == 0 {
		return k.prefix + name
	}
	return k.prefix + name + "@" + strconv.Itoa(k.database)
}

// Partition makes the names of a partition's keys.
type Partition struct {
	prefix string // ends with a colon
}

// Partition returns the keys of a partition, which have the hash tag {number}.
func (k Keyspace) Partition(number int) Partition {
	return Partition{prefix: k.prefix + "{" + strconv.Itoa(number) + "}:"}
}

// AsynqQueue makes the names of asynq's keys of the queue that asynq knows by this name, as asynq 0.26 spells them.
type AsynqQueue string

func (q AsynqQueue) prefix() string { return "asynq:{" + string(q) + "}:" }
