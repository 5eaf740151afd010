package grpcexec

import (
	"container/list"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/worker/executor/grpcexec/grpccall"
)

const (
	cacheLimit = 64 << 20 // bytes of memory, by grpccall.Set.Cost
	cacheTime  = 5 * time.Minute

	// entryCost is what a method counts beside its descriptors, so that many small ones take little memory as well.
	entryCost = 16 << 10
)

// cache keeps methods for cacheTime, and the last used ones if they are too many.
type cache struct {
	limit int // bytes of memory

	mu    sync.Mutex
	items map[cacheKey]*list.Element
	order *list.List // of *cached, the last used one first
	size  int
}

type cached struct {
	key   cacheKey
	value *grpccall.Method
	size  int
	since time.Time
}

func newCache(limit int) *cache {
	return &cache{limit: limit, items: map[cacheKey]*list.Element{}, order: list.New()}
}

// get returns nil if the method is not there.
func (c *cache) get(key cacheKey) *grpccall.Method {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.items[key]
	if element == nil {
		return nil
	}
	item := element.Value.(*cached)
	if clock.Since(item.since) > cacheTime {
		c.remove(element)
		return nil
	}
	c.order.MoveToFront(element)
	return item.value
}

// put keeps a method whose descriptors take that many bytes of memory.
func (c *cache) put(key cacheKey, value *grpccall.Method, size int) {
	size += entryCost + len(key.server.TLS.CA)
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.items[key]; element != nil {
		c.remove(element)
	}
	c.items[key] = c.order.PushFront(&cached{key: key, value: value, size: size, since: clock.Now()})
	for c.size += size; c.size > c.limit; {
		c.remove(c.order.Back())
	}
}

func (c *cache) drop(key cacheKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.items[key]; element != nil {
		c.remove(element)
	}
}

// remove removes an element. c.mu is held.
func (c *cache) remove(element *list.Element) {
	item := c.order.Remove(element).(*cached)
	delete(c.items, item.key)
	c.size -= item.size
}
