package queue

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
)

// to is a delivery that goes to one node.
func to(id, node string) task.Delivery {
	d := aDelivery(id)
	d.Node = node
	return d
}

// A node takes what goes to it alone, and no other one does. Nobody sees its queue among those of the installation.
func TestConsumer_TakesWhatGoesToItsNode(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(to("other", "b"))
	x.enqueue(to("own", "a"))
	x.enqueue(aDelivery("any"))
	c := NewConsumer(ConsumerOptions{
		DB: x.db, Node: "a", Name: "main", Concurrency: 10, Queues: map[string]int{"default": 1}, Log: x.log(),
	})
	c.lookAt(t.Context(), c.sources.own())
	var own, anyones []string
	for _, d := range c.Take(t.Context(), 10) {
		if d.Placed {
			own = append(own, d.Ref.ID)
		} else {
			anyones = append(anyones, d.Ref.ID)
		}
		if d.Queue != "default" {
			t.Errorf("%s is of queue %s", d.Ref, d.Queue)
		}
	}
	if !slices.Equal(own, []string{"own"}) || !slices.Equal(anyones, []string{"any"}) {
		t.Errorf("it takes %v for itself and %v", own, anyones)
	}
	if placed := c.Placed(); placed["default"] != 1 {
		t.Errorf("it says that it has %v for itself, want 1", placed)
	}
	known, err := x.Known(t.Context())
	if err != nil || !slices.Equal(known, []string{"default"}) {
		t.Errorf("the queues are %v, %v", known, err)
	}
}

// The queue of a node that has gone goes when nothing is left there that somebody else may miss.
func TestDropNodeQueues_DeletesThoseOfNodesThatHaveGone(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(to("stays", "lives"))
	x.enqueue(to("lost", "gone"))
	x.foreign([]byte("theirs"), asynq.Queue("mail@eu"))
	gone := func(node string) bool { return node != "lives" }
	dropped, err := x.DropNodeQueues(t.Context(), gone)
	testkit.Must(t, err)
	if dropped != 1 {
		t.Errorf("%d queues are deleted, want 1", dropped)
	}
	left, err := x.all(t.Context())
	testkit.Must(t, err)
	slices.Sort(left)
	if !slices.Equal(left, []string{"default@lives", "mail@eu"}) {
		t.Errorf("the queues are %v", left)
	}
	missing, err := x.Missing(t.Context(), []task.Delivery{to("stays", "lives"), to("lost", "gone")})
	testkit.Must(t, err)
	if len(missing) != 1 || missing[0].Ref.ID != "lost" {
		t.Errorf("%v are missing, want what the node that has gone left", missing)
	}
}

// A delivery says how many slots its task holds, and leaders see it while it waits there or runs.
func TestAwaitRoom_CountsTheSlotsOfTasksThatHoldSeveral(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	further := func() int {
		t.Helper()
		looks, err := x.AwaitRoom(t.Context(), map[string]int{"default@a": 0})
		testkit.Must(t, err)
		return looks["default@a"].Further
	}
	three, two := to("three", "a"), to("two", "a")
	three.Reach, two.Reach = ";;;3", "zone=eu;;;2"
	x.enqueue(to("one", "a"))
	x.enqueue(three)
	x.enqueue(two)
	shared := aDelivery("shared") // nobody is told of its slots
	shared.Reach = ";;;4"
	x.enqueue(shared)
	if n := further(); n != 3 {
		t.Errorf("%d slots beyond one are held, want 2 and 1", n)
	}
	c := NewConsumer(ConsumerOptions{
		DB: x.db, Node: "a", Name: "main", Concurrency: 10, Queues: map[string]int{"default": 1}, Log: x.log(),
	})
	c.lookAt(t.Context(), c.sources.own())
	slots, taken := make(map[string]int), c.Take(t.Context(), 10)
	for _, d := range taken {
		slots[d.Ref.ID] = d.Slots
		if d.Ref.ID == "two" {
			c.SetHolds(d, 1)
		}
	}
	if want := map[string]int{"one": 1, "three": 3, "two": 2, "shared": 1}; !maps.Equal(slots, want) {
		t.Errorf("they hold %v slots, want %v", slots, want)
	}
	if placed := c.Placed(); placed["default"] != 5 {
		t.Errorf("it says that what was for it alone holds %v slots, want 1, 3, and 1 of one that waits for 2", placed)
	}
	if n := further(); n != 3 {
		t.Errorf("%d slots beyond one are held while they run, want 3", n)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for _, d := range taken {
		c.End(d, nil)
	}
	testkit.Eventually(t, "none is held any more", func() bool { return further() == 0 })
	if n := x.db.Exists(t.Context(), string(lua.AsynqQueue("default@a").Several())).Val(); n != 0 {
		t.Error("something is left of the deliveries that have gone")
	}
	stop()
	testkit.Must(t, testkit.Receive(t, ended, "the end of the consumer"))
}

// What waits in the queue default@a of a node counts as waiting in default.
func TestList_CountsWhatNodesHaveForThemselves(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(to("first", "a"))
	check := func(name string, pending int, nodes ...string) {
		t.Helper()
		list, err := x.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Name != "default" || list[0].Pending != pending || list[0].OfAsynq {
			t.Errorf("%s: the queues are %+v, %v", name, list, err)
		}
		one, err := x.Get(t.Context(), "default")
		if err != nil || len(one) != 1 || one[0].Name != "default" || one[0].Size != pending {
			t.Errorf("%s: the queue is %+v, %v", name, one, err)
		}
		all, of, err := x.StandingOfAll(t.Context(), "default")
		if err != nil || !all.Known || all.Pending != pending || len(of) != len(nodes) {
			t.Errorf("%s: it stands so: %+v and %+v, %v", name, all, of, err)
		}
		for _, n := range of {
			if !slices.Contains(nodes, n.Name) || n.Paused != (n.Name == "default@b") {
				t.Errorf("%s: of a node: %+v", name, n)
			}
		}
	}
	check("only of a node", 1, "default@a")
	x.enqueue(to("second", "b"))
	x.enqueue(aDelivery("any"))
	testkit.Must(t, x.inspector.PauseQueue("default@b"))
	check("of two nodes", 3, "default@a", "default@b")
	if none, _, err := x.StandingOfAll(t.Context(), "def"); err != nil || none.Known {
		t.Errorf("of another queue: %+v, %v", none, err)
	}
}

// Without such queues, to read how a queue stands takes as many commands as if there were none.
func TestStandingOfAll_CostsNothingMoreWithoutNodes(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	x.enqueue(aDelivery("any"))
	var trips roundTrips
	x.db.AddHook(&trips)
	_, err := x.Standing(t.Context(), "default", "")
	testkit.Must(t, err)
	one := trips.n.Swap(0)
	commands := []string{"calls", "smembers", "sismember", "get", "llen", "lindex", "hget"}
	before := calls(t, x.db, commands[0], commands[1:]...)
	trips.n.Store(0)
	_, _, err = x.StandingOfAll(t.Context(), "default")
	testkit.Must(t, err)
	if n := trips.n.Load(); n != one {
		t.Errorf("%d round trips, want %d", n, one)
	}
	if n := calls(t, x.db, commands[0], commands[1:]...) - before; n != 4 {
		t.Errorf("%d commands, want 4", n)
	}
}

// A pool does not take what was handed over to the node alone if a larger pool serves that queue.
func TestTake_LeavesWhatIsForTheNodeToALargerPool(t *testing.T) {
	t.Parallel()
	x := newTransport(t)
	c := NewConsumer(ConsumerOptions{
		DB: x.db, Node: "a", Name: "small", Concurrency: 1, Queues: map[string]int{"default": 1, "mails": 1},
		Small: map[string]bool{"default": true}, Log: x.log(),
	})
	x.enqueue(to("placed", "a"))
	x.enqueue(aDelivery("shared"))
	c.lookAt(t.Context(), c.sources.names())
	if taken := c.Take(t.Context(), 10); len(taken) != 1 || taken[0].Ref.ID != "shared" {
		t.Errorf("it has taken %d, want the shared one", len(taken))
	}
	if own := c.sources.own(); len(own) != 1 {
		t.Errorf("of the node, it serves %v", own)
	}
}
