package control

import (
	"context"

	"github.com/dts-sched/dts/internal/task"
)

// pass is what a use case gets when it begins.
type pass struct {
	refused  []error    // by the places of what the use case is about: why there is no memory for it
	room     *queueRoom // the places of its tasks in queues that have a capacity; nil if it makes no work
	answered func()     // nil if it makes no work
	endTurn  func()     // nil if it has taken no turn
}

// leave is called when the use case has ended.
func (p pass) leave() {
	if p.room == nil {
		return
	}
	p.room.leave()
	if p.endTurn != nil {
		p.endTurn()
	}
	p.answered()
}

// begin opens a use case: every one calls it first, with its name in the table of operations and what it is about. It
// holds what may refuse a caller. The use case calls leave of the pass at its end. Errors: CodeInternal for a caller
// who is nobody; CodeOverloaded, and CodeUnavailable while Redis is nearly full or does not answer, if it makes work.
func (c *Control) begin(ctx context.Context, who Caller, operation string, about ...task.Ref) (pass, error) {
	o, ok := operations[operation]
	if !ok || who.Namespace == "" {
		return pass{}, task.Errorf(task.CodeInternal, "the operation %q is not known, or nobody asks for it", operation)
	}
	if !o.MakesWork {
		return pass{}, nil
	}
	answered, err := c.admission.enter(len(about), who.arrived)
	if err != nil {
		return pass{}, err
	}
	p := pass{room: c.newQueueRoom(), answered: answered}
	if !o.each || len(about) > 1 { // one submission shares its call to Redis with others
		if p.endTurn, err = c.turns.take(ctx, c.store.DB.Link().Answers); err != nil { // of a cluster, any server
			p.leave()
			return pass{}, err
		}
	}
	p.refused = c.checkMemory(ctx, about)
	if !o.each && p.refused[0] != nil {
		p.leave()
		return pass{}, p.refused[0]
	}
	return p, nil
}

// Arrive lets in a request for an operation that makes work, before anything of it is looked at: what looks at it
// waits for a processor, as what it asks for waits for Redis. The edge has the use case begin with the Caller that it
// gets, and calls leave when the request has been answered. Error: CodeOverloaded.
func (c *Control) Arrive(who Caller, operation string) (_ Caller, leave func(), _ error) {
	if !operations[operation].MakesWork {
		return who, func() {}, nil
	}
	leave, err := c.admission.enter(1, false)
	if err != nil {
		return who, nil, err
	}
	who.arrived = true
	return who, leave, nil
}
