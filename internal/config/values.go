package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Roles are the roles of a node.
type Roles []string

// Has reports whether the node has the role.
func (r Roles) Has(role string) bool { return slices.Contains(r, role) }

// String is the form that Set reads.
func (r Roles) String() string { return strings.Join(r, ",") }

// Set reads scheduler,worker,api.
func (r *Roles) Set(text string) error {
	*r = split(text, ",")
	return nil
}

// Type is what --help calls the value.
func (r *Roles) Type() string { return "ROLE,..." }

// Queues are the queues of a pool, each with its weight. Of two queues that both have tasks waiting, the one with twice
// the weight is served twice as often.
type Queues map[string]int

// String is the form that Set reads, heaviest first.
func (q Queues) String() string {
	names := slices.SortedFunc(maps.Keys(q), func(a, b string) int {
		return cmp.Or(cmp.Compare(q[b], q[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s=%d", name, q[name])
	}
	return strings.Join(names, ",")
}

// Set reads critical=6,default=3,low; no weight means 1.
func (q *Queues) Set(text string) error {
	parsed := Queues{}
	for _, item := range split(text, ",") {
		name, weight, weighted := strings.Cut(item, "=")
		if _, twice := parsed[name]; twice {
			return fmt.Errorf("queue %q is named twice", name)
		}
		parsed[name] = 1
		if !weighted {
			continue
		}
		n, err := strconv.Atoi(weight)
		if err != nil {
			return fmt.Errorf("the weight of queue %q is %q, not a whole number", name, weight)
		}
		parsed[name] = n
	}
	*q = parsed
	return nil
}

// Type is what --help calls the value.
func (q *Queues) Type() string { return "QUEUE=WEIGHT,..." }

// Pool is a share of a node's concurrency with queues of its own.
type Pool struct {
	Name        string
	Concurrency int
	Queues      Queues
}

// String is the form that ParsePool reads.
func (p Pool) String() string { return fmt.Sprintf("%s:%d:%s", p.Name, p.Concurrency, p.Queues) }

var errPoolForm = errors.New("a pool is written NAME:CONCURRENCY:QUEUE=WEIGHT,... as in reports:2:reports=1")

// ParsePool reads NAME:CONCURRENCY:QUEUE=WEIGHT,...
func ParsePool(text string) (Pool, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return Pool{}, errPoolForm
	}
	p := Pool{Name: strings.TrimSpace(parts[0])}
	var err error
	if p.Concurrency, err = strconv.Atoi(strings.TrimSpace(parts[1])); err != nil {
		return Pool{}, fmt.Errorf("the concurrency of pool %q is %q, not a whole number: %w", p.Name, parts[1], errPoolForm)
	}
	return p, p.Queues.Set(parts[2])
}

// Pools are the pools besides the default one.
type Pools []Pool

// poolSeparator separates several pools in one text.
const poolSeparator = ";"

// String is the form that Set reads.
func (p Pools) String() string {
	texts := make([]string, len(p))
	for i, pool := range p {
		texts[i] = pool.String()
	}
	return strings.Join(texts, poolSeparator)
}

// Set adds one pool, or several that are separated by semicolons.
func (p *Pools) Set(text string) error {
	for _, item := range split(text, poolSeparator) {
		pool, err := ParsePool(item)
		if err != nil {
			return err
		}
		*p = append(*p, pool)
	}
	return nil
}

// Type is what --help calls the value.
func (p *Pools) Type() string { return "NAME:CONCURRENCY:QUEUE=WEIGHT,..." }

// partitionCount is a number of partitions as a flag. 0, the default, stands for the existing number and cannot be set:
// whoever writes it means something else.
type partitionCount int

// String is the form that Set reads.
func (p *partitionCount) String() string { return strconv.Itoa(int(*p)) }

// Set reads a number from 1 to PartitionsLimit.
func (p *partitionCount) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > PartitionsLimit {
		return fmt.Errorf("must be a whole number from 1 to %d; leave it out for the existing number, or 16 at the first start", PartitionsLimit)
	}
	*p = partitionCount(n)
	return nil
}

// Type is what --help calls the value.
func (p *partitionCount) Type() string { return "NUMBER" }

// logLevel is a slog.Level as a flag.
type logLevel slog.Level

// String is the form that Set reads.
func (l *logLevel) String() string { return slog.Level(*l).String() }

// Set reads debug, info, warn or error, whatever their case, or a level in between, as slog writes it: info+2.
func (l *logLevel) Set(text string) error {
	if err := (*slog.Level)(l).UnmarshalText([]byte(text)); err != nil {
		return errors.New("must be debug, info, warn or error")
	}
	return nil
}

// Type is what --help calls the value.
func (l *logLevel) Type() string { return "LEVEL" }

// split splits text at separator and trims the items. It returns nil for an empty text.
func split(text, separator string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	items := strings.Split(text, separator)
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
