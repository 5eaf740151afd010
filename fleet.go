package dts

import (
	"cmp"
	"context"
	"time"

	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/task"
)

// Node is a process of the fleet: one of dtsd, a [Worker], or a worker that talks HTTP.
type Node struct {
	ID         string
	Name       string // --node-name of dtsd, WorkerOptions.Name, or the host; of a worker that talks HTTP, its id
	Host       string
	IP         string
	Version    string
	Roles      []string       // scheduler, worker, api
	State      string         // alive, draining, dead
	Capacity   int            // its slots: attempts at once, if each holds one
	Running    int            // slots that are taken
	Tasks      int            // that run, or whose end Redis has not taken yet
	Partitions []int          // that it leads
	Queues     map[string]int // that its workers serve, with their weights
	Types      []string       // of the tasks that its workers run
	Via        string         // the node through which a worker that talks HTTP was last heard; "" for others
	StartedAt  time.Time
	LastBeat   time.Time
	Labels     map[string]string // --labels of dtsd, or WorkerOptions.Labels
	CPU        float64           // share of the processors of its machine that its process uses, 0 to 1
	Memory     uint64            // bytes that its process holds
	Machine    *Machine          // nil if it does not tell
	Cordon     *Cordon           // nil if it is not cordoned; Queues is empty while it is
}

// Cordon says that the workers of a node take no tasks, and why.
type Cordon struct {
	Of    string // the id or the name that was cordoned
	By    string // who asked for it; "" if nobody knows
	Note  string // why; "" if nobody said
	Since time.Time
	Until time.Time // when it ends; zero if it lasts until somebody uncordons the node

	// Obeyed says that the node has confirmed the cordon: no task begins there any more, and Node.Tasks is how many it
	// has left. Nodes of releases without cordons never do.
	Obeyed bool
	Drain  bool // what runs there is asked to move to other workers, as by "dtsctl node drain"
}

// Queue is a queue in which due tasks wait for workers.
type Queue struct {
	Name      string
	Paused    bool
	PausedAt  time.Time     // to the second; zero if it is not paused
	PauseNote string        // what was said at the pause
	Capacity  int           // how many tasks may wait, in Waiting and Pending together; 0: any number
	Waiting   int           // due tasks that wait until the queue has room
	Pending   int           // deliveries that wait for a worker
	Active    int           // deliveries that a worker has taken
	Archived  int           // dead letters
	Processed int           // deliveries done today (UTC), well or badly
	Failed    int           // of those, badly
	Latency   time.Duration // how long the oldest delivery has waited for a worker

	// Limit is Capacity.
	//
	// Deprecated: it is called Capacity.
	Limit int
}

// Nodes returns the nodes that are alive or have died lately. Errors: CodeUnavailable; CodeDataUnreadable, together
// with the others, if some cannot be read.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	return nodesOf(call[wire.NodeList](c.api.ListNodesWithResponse(ctx, nil)))
}

func nodesOf(list wire.NodeList, err error) ([]Node, error) {
	return each(list.Nodes, func(n wire.Node) Node {
		return Node{
			Tasks: wire.TasksOf(n),
			ID:    n.ID, Name: wire.Value(n.Name), Labels: wire.Value(n.Labels), CPU: n.CPU, Memory: n.Memory,
			Machine: machineOf(n.Machine), Host: n.Host, IP: n.IP, Version: n.Version, Roles: n.Roles, State: string(n.State),
			Capacity: n.Capacity, Running: n.Running, Partitions: n.Partitions, Queues: n.Queues, Types: n.Types,
			Via: wire.Value(n.Via), StartedAt: n.StartedAt.Time, LastBeat: n.LastBeat.Time, Cordon: cordonOf(n.Cordon),
		}
	}), cmp.Or(err, leftOut(list.Warnings))
}

func cordonOf(c *wire.NodeCordon) *Cordon {
	if c == nil {
		return nil
	}
	return &Cordon{
		Of: c.Of, By: wire.Value(c.By), Note: wire.Value(c.Note), Since: c.Since.Time, Until: wire.Value(c.Until).Time,
		Obeyed: c.Obeyed, Drain: wire.Value(c.Drain),
	}
}

// CordonNode keeps the workers of a node from taking tasks. What runs there goes on, and tasks that they have taken
// already may still begin. node is the id of a node, whose cordon ends with its process, or the name of one or several
// nodes, whose cordon also holds for nodes that start later. note says why; it may be empty. lasts is how long the
// cordon lasts; 0: until UncordonNode. It returns the nodes with that id or name. Errors: CodeInvalid; CodeNodeNotFound
// if there is no such node; CodeTooManyCordons.
func (c *Client) CordonNode(ctx context.Context, node, note string, lasts time.Duration) ([]Node, error) {
	return c.cordon(ctx, node, lasts, wire.NodeCordoning{Note: wire.Given(note)})
}

func (c *Client) cordon(ctx context.Context, node string, lasts time.Duration, in wire.NodeCordoning) ([]Node, error) {
	if err := task.ValidateName("node", node); err != nil {
		return nil, errorOfUseCase(err)
	}
	if lasts != 0 {
		in.For = new(task.FormatDuration(lasts))
	}
	return nodesOf(call[wire.NodeList](c.api.CordonNodeWithResponse(ctx, node, in)))
}

// DrainNode is CordonNode, and asks what runs there to move to other workers, as [Client.Move] does. What cannot move
// goes on.
func (c *Client) DrainNode(ctx context.Context, node, note string, lasts time.Duration) ([]Node, error) {
	return c.cordon(ctx, node, lasts, wire.NodeCordoning{Note: wire.Given(note), Drain: new(true)})
}

// UncordonNode ends the cordon of an id or a name. It returns the nodes with that id or name. Errors: as for
// CordonNode.
func (c *Client) UncordonNode(ctx context.Context, node string) ([]Node, error) {
	if err := task.ValidateName("node", node); err != nil {
		return nil, errorOfUseCase(err)
	}
	return nodesOf(call[wire.NodeList](c.api.UncordonNodeWithResponse(ctx, node)))
}

// Queues returns the queues that ever held a task. Errors: CodeUnavailable; CodeDataUnreadable, together with the
// others, if some cannot be read.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	list, err := call[wire.QueueList](c.api.ListQueuesWithResponse(ctx))
	return each(list.Queues, func(q wire.Queue) Queue {
		capacity := wire.Value(cmp.Or(q.Capacity, q.Limit)) // nodes of earlier releases answer limit only
		return Queue{
			Name: q.Name, Paused: q.Paused, PausedAt: wire.Value(q.PausedAt).Time, PauseNote: wire.Value(q.PauseNote),
			Capacity: capacity, Limit: capacity, Waiting: q.Waiting, Pending: q.Pending, Active: q.Active, Archived: q.Archived,
			Processed: q.Processed, Failed: q.Failed, Latency: span(q.Latency),
		}
	}), cmp.Or(err, leftOut(list.Warnings))
}

// Namespace is a tenant that tasks and schedules belong to.
type Namespace struct {
	Name            string
	LastSubmittedAt time.Time // when somebody last submitted a task or put a schedule, to the minute; ticks do not count
}

// Namespaces returns the namespaces to which something was submitted, by name. Errors: CodeUnavailable;
// CodeDataUnreadable, together with the others, if some cannot be read.
func (c *Client) Namespaces(ctx context.Context) ([]Namespace, error) {
	list, err := call[wire.NamespaceList](c.api.ListNamespacesWithResponse(ctx))
	return each(list.Namespaces, func(n wire.NamespaceEntry) Namespace {
		return Namespace{Name: n.Name, LastSubmittedAt: n.LastSubmittedAt.Time}
	}), cmp.Or(err, leftOut(list.Warnings))
}

// PauseQueue has workers take nothing from a queue any more; what runs goes on. What a worker has taken may still
// begin: as many as it has slots, and up to 64 more, within about 50 ms. Error: CodeQueueNotFound.
func (c *Client) PauseQueue(ctx context.Context, name string) error {
	return c.PauseQueueWithNote(ctx, name, "")
}

// PauseQueueWithNote is PauseQueue with a note, which says who and why, for people who look at the queue. The note of a
// queue that is paused already stays as it is. Errors: those of PauseQueue, and CodeInvalid.
func (c *Client) PauseQueueWithNote(ctx context.Context, name, note string) error {
	if err := task.ValidateQueue(name); err != nil {
		return errorOfUseCase(err)
	}
	return done(c.api.PauseQueueWithResponse(ctx, name, wire.QueuePause{Note: wire.Given(note)}))
}

// SetQueueCapacity sets how many due tasks may wait for a worker in a queue; 0: any number. While as many wait,
// submissions of tasks that are due at once are refused with CodeQueueFull, and ticks of schedules are held back. The
// capacity is not exact: each node counts about once a second. Errors: CodeInvalid; CodeNotFound of a node of an
// earlier release.
func (c *Client) SetQueueCapacity(ctx context.Context, name string, capacity int) error {
	if err := task.ValidateQueue(name); err != nil {
		return errorOfUseCase(err)
	}
	return done(c.api.SetQueueCapacityWithResponse(ctx, name, wire.QueueCapacity{Capacity: &capacity}))
}

// LimitQueue is SetQueueCapacity by its old name, which nodes of earlier releases know, too.
//
// Deprecated: call SetQueueCapacity.
func (c *Client) LimitQueue(ctx context.Context, name string, limit int) error {
	if err := task.ValidateQueue(name); err != nil {
		return errorOfUseCase(err)
	}
	return done(c.api.LimitQueueWithResponse(ctx, name, wire.QueueCapacity{Limit: &limit}))
}

// ResumeQueue ends the pause of a queue. Error: CodeQueueNotFound.
func (c *Client) ResumeQueue(ctx context.Context, name string) error {
	if err := task.ValidateQueue(name); err != nil {
		return errorOfUseCase(err)
	}
	return done(c.api.ResumeQueueWithResponse(ctx, name))
}

// done is for answers without a value.
func done(r rest.Reply, err error) error {
	_, err = rest.Read[struct{}](r, err)
	return errorOf(err)
}
