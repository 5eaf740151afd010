package lua

import "strconv"

// DefaultPrefix begins the keys of an installation that has no prefix of its own.
const DefaultPrefix = "dts"

// Keyspace makes the names of an installation's keys and channels. The table of package contract is where each of them
// is defined; the methods are generated from it.
type Keyspace struct {
	prefix   string // ends with a colon
	database int
}

// NewKeyspace is the keyspace of an installation; prefix "" means DefaultPrefix. Redis does not keep channels apart by
// database, so their names have the number of one other than 0.
func NewKeyspace(prefix string, database int) Keyspace {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return Keyspace{prefix: prefix + ":", database: database}
}

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

// Partition is the part of the keyspace that has the hash tag {number}.
func (k Keyspace) Partition(number int) Partition {
	return Partition{prefix: k.prefix + "{" + strconv.Itoa(number) + "}:"}
}

// AsynqQueue makes the names of asynq's keys of the queue that asynq knows by this name, as asynq 0.26 spells them.
type AsynqQueue string

func (q AsynqQueue) prefix() string { return "asynq:{" + string(q) + "}:" }
