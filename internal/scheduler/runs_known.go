package scheduler

import (
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
)

// cacheSize bounds what a term keeps of runs.
type cacheSize struct {
	runs  int
	flows int // bytes of definitions, as they are stored
}

var defaultCache = cacheSize{runs: 1000, flows: 8 << 20}

// knownRuns is a cache of a term: what does not change of runs. It drops all when it is full.
type knownRuns struct {
	of    map[task.Ref]*knownRun
	flows map[string]*knownFlow // by the namespace and the plan
	bytes int                   // of these names
	max   cacheSize
}

// knownRun is what does not change of a run.
type knownRun struct {
	*knownFlow
	start  text.Start // without its definition
	params map[string]any
	inLine bool // it has a place in the line of its workflow

	looked time.Time // when its active steps were read, as the ends of some may not have been told
}

// knownFlow is a definition, ready for planning. Many runs may have it.
type knownFlow struct {
	flow     *workflow.Flow
	revision int // of a workflow that was put; 0: the definition is part of the run
}

// flow returns the definition of a plan.
func (k *knownRuns) flow(namespace, plan string) (*knownFlow, error) {
	name := namespace + " " + plan
	if f := k.flows[name]; f != nil {
		return f, nil
	}
	d, revision, err := text.ParsePlan(namespace, plan)
	if err != nil {
		return nil, err
	}
	flow, err := workflow.Compile(d)
	if err != nil {
		return nil, err
	}
	if k.flows == nil || k.bytes+len(name) > k.max.flows {
		k.of, k.flows, k.bytes = nil, make(map[string]*knownFlow), 0 // runs keep flows as well
	}
	f := &knownFlow{flow: flow, revision: revision}
	k.flows[name] = f
	k.bytes += len(name)
	return f, nil
}

// keep keeps what does not change of a run.
func (k *knownRuns) keep(ref task.Ref, run *knownRun) {
	if len(k.of) >= k.max.runs || k.of == nil {
		k.of = make(map[task.Ref]*knownRun)
	}
	k.of[ref] = run
}

// forget forgets a run.
func (k *knownRuns) forget(ref task.Ref) { delete(k.of, ref) }

// load prepares a run by its stored plan.
func (t *term) load(p *planned, plan string) {
	flow, err := t.runs.flow(p.ref.Namespace, plan)
	if err != nil {
		p.fail(err)
		return
	}
	k := &knownRun{knownFlow: flow, start: p.start, inLine: p.inLine}
	k.start.Definition = workflow.Definition{}
	if k.params, err = flow.flow.Bind(p.start.Params); err != nil {
		p.fail(err)
		return
	}
	p.follows, p.known = goesOn, k
	t.runs.keep(p.ref, k)
}

// loadBegun prepares a run that has begun.
func (t *term) loadBegun(p *planned) {
	if k := p.known; k != nil {
		p.follows, p.start, p.inLine = goesOn, k.start, k.inLine
		return
	}
	var err error
	if p.start, err = text.ParseStart(p.ref.Namespace, p.read.Task.Payload); err != nil {
		p.fail(err)
		return
	}
	t.load(p, p.read.Plan)
}
