package usage

import (
	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/lua"
)

// readHashes measures the hashes of tasks, and shares their bytes among the tasks. It returns a sample of the tasks of
// each partition.
func (r *reader) readHashes() ([][]entry, error) {
	expiry := r.partitionKeys(func(p lua.Partition) string { return string(p.Expiry()) })
	ended, err := r.counts(expiry, func(pipe redis.Pipeliner, key string) *redis.IntCmd { return pipe.ZCard(r.ctx, key) })
	if err != nil {
		return nil, err
	}
	var tasks [][]entry
	for place, of := range hashes(r.l.Keys.Partition(0)) {
		h := hash{reader: r, kind: of.kind}
		h.keys = r.partitionKeys(func(p lua.Partition) string { return hashes(p)[place].name })
		if err := h.read(expiry); err != nil {
			return nil, err
		}
		if place == 0 {
			tasks = h.samples
			h.countTasks(ended)
		}
		for i, bytes := range h.bytes {
			r.share(bytes, h.samples[i], h.kindOf)
		}
	}
	return tasks, nil
}

// hash is what is read of one hash of all partitions. All slices have an element for each partition.
type hash struct {
	*reader
	kind    Kind
	keys    []string
	bytes   []float64
	sizes   []int64 // how many entries there are
	samples [][]entry
}

// kindOf is the kind of the entry of a task.
func (h *hash) kindOf(ended bool) Kind {
	if h.kind == Waiting && ended {
		return Ended
	}
	return h.kind
}

// countTasks counts the tasks of namespaces, and weighs the samples by how many tasks have ended.
func (h *hash) countTasks(ended []int64) {
	for i, size := range h.sizes {
		if size > 0 && len(h.samples[i]) > 0 {
			h.count(float64(size), h.samples[i])
			h.samples[i] = balanced(h.samples[i], float64(ended[i])/float64(size))
		}
	}
}

// read measures the hash, and samples its entries. expiry are the sets of tasks that have ended.
func (h *hash) read(expiry []string) (err error) {
	if h.bytes, err = h.measure(h.keys); err != nil {
		return err
	}
	h.sizes, err = h.counts(h.keys, func(pipe redis.Pipeliner, key string) *redis.IntCmd { return pipe.HLen(h.ctx, key) })
	if err != nil {
		return err
	}
	h.samples = make([][]entry, len(h.keys))
	names, err := h.draw()
	if err != nil {
		return err
	}
	for p := range h.keys {
		for _, name := range names[p] {
			h.samples[p] = append(h.samples[p], entry{name: name})
		}
	}
	if err := h.readLengths(); err != nil || h.kind != Waiting {
		return err
	}
	return h.readEnds(expiry, names)
}

// draw returns the names of random entries in each partition.
func (h *hash) draw() ([][]string, error) {
	wanted := allot(entrySamples, h.sizes)
	asked, err := ask(h.reader, h.keys, func(pipe redis.Pipeliner, i int) *redis.StringSliceCmd {
		return pipe.HRandField(h.ctx, h.keys[i], int(wanted[i]))
	})
	if err != nil {
		return nil, err
	}
	names := make([][]string, len(h.keys))
	for i, cmd := range asked {
		names[i] = cmd.Val()
	}
	return names, nil
}

// readLengths asks for the sizes of the sampled entries.
func (h *hash) readLengths() error {
	var keys []string
	var entries []*entry
	for p, sample := range h.samples {
		for i := range sample {
			keys, entries = append(keys, h.keys[p]), append(entries, &sample[i])
		}
	}
	lengths, err := ask(h.reader, keys, func(pipe redis.Pipeliner, i int) *redis.IntCmd {
		return pipe.HStrLen(h.ctx, keys[i], entries[i].name)
	})
	if err != nil {
		return err
	}
	for i, e := range entries {
		e.bytes = float64(lengths[i].Val()) + float64(len(e.name)) + entryOverhead
	}
	return nil
}

// readEnds asks which of the sampled tasks have ended.
func (h *hash) readEnds(expiry []string, names [][]string) error {
	asked, err := ask(h.reader, expiry, func(pipe redis.Pipeliner, i int) *redis.FloatSliceCmd {
		if len(names[i]) == 0 {
			return pipe.ZMScore(h.ctx, expiry[i], "")
		}
		return pipe.ZMScore(h.ctx, expiry[i], names[i]...)
	})
	if err != nil {
		return err
	}
	for p, cmd := range asked {
		for i, at := range cmd.Val() {
			if i < len(h.samples[p]) {
				h.samples[p][i].ended = at > 0
			}
		}
	}
	return nil
}
