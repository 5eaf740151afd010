package rollup

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dts-sched/dts/internal/task"
)

// version is the first byte of what is encoded. A release that finds a greater one leaves it to a newer release.
const version = 1

// mostBytes is the most that is read of what was compressed.
const mostBytes = 1 << 20

// ErrUnreadable is returned for what this release cannot read; ErrNewer, which wraps it, for what a newer one has
// written.
var (
	ErrUnreadable = errors.New("the counts cannot be read")
	ErrNewer      = fmt.Errorf("%w: a newer release has written them", ErrUnreadable)
)

// Encode returns the minute in at most limit bytes: while it is longer, half of its causes become one, and then
// half of its queues.
func Encode(m Minute, limit int) []byte {
	m = m.Clone()
	for {
		text := compress(m)
		switch {
		case len(text) <= limit:
			return text
		case len(m.Causes) > 1:
			m.Causes = boundCauses(m.Causes, len(m.Causes)/2)
		case len(m.Queues) > 1:
			m.boundQueues(len(m.Queues) / 2)
		default:
			return text // it cannot be that long
		}
	}
}

func compress(m Minute) []byte {
	var out bytes.Buffer
	out.WriteByte(version)
	w, _ := flate.NewWriter(&out, flate.BestSpeed) // it fails for another level only
	_, _ = w.Write(appendMinute(nil, m))           // a Buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// appendMinute writes numbers as varints, and texts with their length before them.
func appendMinute(b []byte, m Minute) []byte {
	b = binary.AppendVarint(b, m.At.UnixMilli())
	b = appendInts(b, int(m.Length.Milliseconds()), m.Running, m.Capacity, btoi(m.Sampled), len(m.Queues))
	for _, name := range append(busiest(m.Queues), Rest) {
		if q, there := m.Queues[name]; there {
			b = appendQueue(appendText(b, name), q)
		}
	}
	b = appendInts(b, len(m.Causes))
	for _, c := range m.Causes {
		b = appendCause(b, c, m.At)
	}
	return b
}

func appendQueue(b []byte, q Queue) []byte {
	b = appendInts(b, q.Begun, q.Succeeded, q.Failed, q.Timeout, q.Cancelled, q.Lost, q.Snoozed, q.Dead, q.Waiting,
		int(q.Oldest.Milliseconds()), int(max(q.Late.Max, 0).Milliseconds()))
	used := 0
	for _, c := range q.Late.Counts {
		used += btoi(c > 0)
	}
	b = appendInts(b, used)
	last := 0
	for bucket, c := range q.Late.Counts {
		if c > 0 {
			b = appendInts(b, bucket-last, int(c))
			last = bucket
		}
	}
	return b
}

func appendCause(b []byte, c Cause, at time.Time) []byte {
	for _, text := range []string{c.Text, c.Queue, c.Namespace, c.Schedule, c.Type, c.Example.Task.Namespace,
		c.Example.Task.ID} {
		b = appendText(b, text)
	}
	b = appendInts(b, c.Count, c.Dead, c.Example.Attempt)
	b = binary.AppendVarint(b, c.First.Sub(at).Milliseconds())
	return binary.AppendVarint(b, c.Last.Sub(at).Milliseconds())
}

func appendInts(b []byte, numbers ...int) []byte {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, uint64(max(n, 0)))
	}
	return b
}

func appendText(b []byte, text string) []byte { return append(appendInts(b, len(text)), text...) }

// Decode reads what Encode has written. Errors: ErrUnreadable, ErrNewer.
func Decode(text []byte) (Minute, error) {
	if len(text) > 0 && text[0] > version {
		return Minute{}, ErrNewer
	}
	if len(text) == 0 || text[0] != version {
		return Minute{}, fmt.Errorf("%w: not of version %d", ErrUnreadable, version)
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(text[1:])), mostBytes))
	if err != nil {
		return Minute{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	r := &reader{rest: plain}
	m := r.minute()
	if r.bad || len(r.rest) > 0 {
		return Minute{}, fmt.Errorf("%w: they do not have the length that they tell", ErrUnreadable)
	}
	return m, nil
}

// reader reads an encoded minute. Once it is bad, it returns zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) minute() Minute {
	m := Minute{
		At: time.UnixMilli(r.signed()).UTC(), Length: r.span(), Running: r.number(), Capacity: r.number(),
		Sampled: r.number() > 0, Queues: map[string]Queue{},
	}
	for range r.amount() {
		name := r.text()
		m.Queues[name] = r.queue()
	}
	for range r.amount() {
		m.Causes = append(m.Causes, r.cause(m.At))
	}
	return m
}

func (r *reader) queue() Queue {
	q := Queue{
		Begun: r.number(), Succeeded: r.number(), Failed: r.number(), Timeout: r.number(), Cancelled: r.number(),
		Lost: r.number(), Snoozed: r.number(), Dead: r.number(), Waiting: r.number(), Oldest: r.span(),
	}
	q.Late.Max = r.span()
	bucket := 0
	for range r.amount() {
		bucket += r.number()
		c := r.number()
		if bucket >= buckets || c > math.MaxUint32 {
			r.fail()
			break
		}
		if missing := bucket + 1 - len(q.Late.Counts); missing > 0 {
			q.Late.Counts = append(q.Late.Counts, make([]uint32, missing)...)
		}
		q.Late.Counts[bucket] = uint32(c)
	}
	return q
}

func (r *reader) cause(at time.Time) Cause {
	c := Cause{Kind: Kind{Text: r.text(), Queue: r.text(), Namespace: r.text(), Schedule: r.text(), Type: r.text()}}
	c.Example.Task = task.Ref{Namespace: r.text(), ID: r.text()}
	c.Count, c.Dead, c.Example.Attempt = r.number(), r.number(), r.number()
	c.First = at.Add(time.Duration(r.signed()) * time.Millisecond)
	c.Last = at.Add(time.Duration(r.signed()) * time.Millisecond)
	return c
}

// number reads a number that is not negative. One beyond 48 bits is none of a count.
func (r *reader) number() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n >= 1<<48 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 || n >= 1<<48 || n <= -1<<48 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// amount reads how many parts follow. Each has a byte at least.
func (r *reader) amount() int {
	n := r.number()
	if n > len(r.rest) {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) span() time.Duration {
	ms := r.number()
	if ms > math.MaxInt64/int(time.Millisecond) {
		r.fail()
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

func (r *reader) text() string {
	n := r.amount()
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

func (r *reader) fail() { r.bad, r.rest = true, nil }
