package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow/expr"
)

var zero time.Time

// Flow is a definition that was checked, and is ready for planning. It does not change.
type Flow struct {
	Definition
	nodes  []node            // Steps, then OnFailure, then Finally, as the definition has them
	starts [sections + 1]int // where the nodes of each section begin, and the end of all
	byID   map[string]int
	order  []int // of all nodes: section by section, each behind those that it needs
	output *expr.Template
}

// node is a step with what it needs.
type node struct {
	Step
	in      section
	field   string // its name in errors, as "steps[2]"
	needs   []edge
	when    *expr.Condition // nil: true
	payload *expr.Template  // of a task
	until   *expr.Template  // of one that waits until a moment
	choices []*expr.Condition
	reads   []int // the nodes that these expressions read
}

// edge leads from a step to one that needs it.
type edge struct {
	from    int
	choices []bool // of a step that decides and names the other one: which branches do; nil: it counts as it ends
}

// follows reports whether what the edge leads to goes on after that branch of a step that decides.
func (e edge) follows(choice int) bool {
	return e.choices == nil || choice < len(e.choices) && e.choices[choice]
}

// Len returns how many steps there are, with those of OnFailure and Finally.
func (f *Flow) Len() int { return len(f.nodes) }

// StepID returns the id of a step by its index.
func (f *Flow) StepID(i int) string { return f.nodes[i].ID }

// Step returns a step by its index, and the section that it is in: steps, on_failure or finally.
func (f *Flow) Step(i int) (_ Step, section string) { return f.nodes[i].Step, f.nodes[i].in.name() }

// HasTask reports whether a step has a task once it is released.
func (f *Flow) HasTask(i int) bool { return f.nodes[i].Task != nil }

// Index returns the index of a step: Steps come first, then OnFailure, then Finally. ok is false if there is none.
func (f *Flow) Index(id string) (i int, ok bool) {
	i, ok = f.byID[id]
	return i, ok
}

// of returns the indices of the nodes of a section, from lo to hi-1. They are also where order has them.
func (f *Flow) of(in section) (lo, hi int) { return f.starts[in], f.starts[in+1] }

// Unknown returns a flow without steps: that of a run which has not begun, and whose workflow nobody can read.
func Unknown() *Flow { return &Flow{byID: map[string]int{}} }

// Compile checks a definition as Validate says, and prepares it. Error: CodeInvalid.
func Compile(d Definition) (*Flow, error) {
	invalid := d.validate()
	if invalid != nil && d.hasTooManySteps() {
		return nil, invalid
	}
	f := &Flow{Definition: d, byID: map[string]int{}}
	for in := range sections {
		for i, s := range in.of(d) {
			f.byID[s.ID] = len(f.nodes)
			f.nodes = append(f.nodes, node{Step: s, in: in, field: fmt.Sprintf("%s[%d]", in.name(), i)})
		}
		f.starts[in+1] = len(f.nodes)
	}
	for _, check := range []func() error{f.link, f.sort} { // what comes after would be wrong for that
		if err := check(); err != nil {
			return nil, task.Join(invalid, err)
		}
	}
	err := invalid
	if err == nil { // all rules are known
		err = f.checkReach()
	}
	if err := task.Join(err, f.compile()); err != nil {
		return nil, err
	}
	return f, nil
}

// link finds what steps need.
func (f *Flow) link() error {
	var errs []error
	edges := 0
	for i := range f.nodes {
		n := &f.nodes[i]
		edges += len(n.Needs)
		for j, id := range n.Needs {
			from, err := f.needed(n, id)
			if err == nil && slices.Contains(n.Needs[:j], id) {
				err = fmt.Errorf("%s is there twice", id)
			}
			if err != nil {
				errs = append(errs, task.Invalid(fmt.Sprintf("%s.needs[%d]", n.field, j), "%v", err))
				continue
			}
			n.needs = append(n.needs, edge{from: from, choices: f.nodes[from].choicesOf(n.ID)})
		}
	}
	if edges > EdgesLimit {
		return task.Invalid("steps", "need each other %d times, at most %d are allowed", edges, EdgesLimit)
	}
	return task.Join(append(errs, f.checkThen())...)
}

// needed returns the index of a step that another one needs.
func (f *Flow) needed(by *node, id string) (int, error) {
	from, known := f.byID[id]
	switch {
	case !known:
		return 0, fmt.Errorf("%q is no step of this workflow%s", id, f.likely(id))
	case id == by.ID:
		return 0, fmt.Errorf("%s cannot need itself", id)
	case f.nodes[from].in != by.in:
		const text = "%s is a step of %s: a step of %s can need only others of it"
		return 0, fmt.Errorf(text, id, f.nodes[from].in.name(), by.in.name())
	}
	return from, nil
}

// likely names the step that somebody may have meant.
func (f *Flow) likely(id string) string {
	for _, n := range f.nodes {
		if id == "" {
			break
		}
		if strings.HasPrefix(n.ID, id) || strings.HasPrefix(id, n.ID) || strings.EqualFold(n.ID, id) {
			return "; did you mean " + n.ID + "?"
		}
	}
	return ""
}

// choicesOf says which branches name a step; nil if none does.
func (n *node) choicesOf(id string) []bool {
	var named []bool
	for i, c := range n.Decide {
		if slices.Contains(c.Then, id) {
			if named == nil {
				named = make([]bool, len(n.Decide))
			}
			named[i] = true
		}
	}
	return named
}

// checkThen checks that branches name steps that need the one that decides.
func (f *Flow) checkThen() error {
	var errs []error
	for _, n := range f.nodes {
		for i, c := range n.Decide {
			for j, id := range c.Then {
				to, known := f.byID[id]
				if !known || !slices.Contains(f.nodes[to].Needs, n.ID) {
					errs = append(errs, task.Invalid(fmt.Sprintf("%s.decide[%d].then[%d]", n.field, i, j),
						"%q must be a step that needs %s", id, n.ID))
				}
			}
		}
	}
	return task.Join(errs...)
}

// sort fills order. Error: the steps of a cycle.
func (f *Flow) sort() error {
	waits := make([]int, len(f.nodes)) // for how many needs
	after := make([][]int, len(f.nodes))
	var ready []int
	for i, n := range f.nodes {
		waits[i] = len(n.needs)
		if waits[i] == 0 {
			ready = append(ready, i)
		}
		for _, e := range n.needs {
			after[e.from] = append(after[e.from], i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		f.order = append(f.order, i)
		for _, next := range after[i] {
			if waits[next]--; waits[next] == 0 {
				ready = append(ready, next)
			}
		}
	}
	if len(f.order) == len(f.nodes) {
		slices.SortStableFunc(f.order, func(a, b int) int { return cmp.Compare(f.nodes[a].in, f.nodes[b].in) })
		return nil
	}
	at := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
	ids := f.cycle(at, waits)
	field := f.nodes[f.byID[ids[0]]].field + ".needs"
	return task.Invalid(field, "steps wait for each other: %s", strings.Join(ids, " needs "))
}

// cycle returns the ids of steps of which each needs the next one, from a step that is in a cycle or behind one. The
// first and the last are the same.
func (f *Flow) cycle(at int, waits []int) []string {
	seen := map[int]int{}
	var ids []string
	for {
		if start, again := seen[at]; again {
			return append(ids[start:], f.nodes[at].ID)
		}
		seen[at] = len(ids)
		ids = append(ids, f.nodes[at].ID)
		i := slices.IndexFunc(f.nodes[at].needs, func(e edge) bool { return waits[e.from] > 0 })
		at = f.nodes[at].needs[i].from
	}
}

// checkReach checks that each step can be released.
func (f *Flow) checkReach() error {
	may := make([]outcomes, len(f.nodes))
	var errs []error
	for _, i := range f.order {
		n := &f.nodes[i]
		if len(n.needs) == 0 {
			may[i] = n.released()
			continue
		}
		needs := make([]outcomes, len(n.needs))
		for j, e := range n.needs {
			needs[j] = may[e.from]
			if e.choices != nil {
				needs[j] |= maySkip
			}
		}
		can := false
		for _, d := range n.EffectiveRule().possible(needs) {
			switch {
			case d.Release:
				can = true
				may[i] |= n.released()
			case d.Verdict == UpstreamFailed:
				may[i] |= mayFail
			default:
				may[i] |= maySkip
			}
		}
		if !can {
			errs = append(errs, task.Invalid(n.field+".rule", "%s can never hold for what %s needs, whatever becomes of that",
				n.EffectiveRule(), n.ID))
		}
	}
	return task.Join(errs...)
}

// released returns what a step may count as once its rule has released it.
func (n *node) released() outcomes {
	may := maySucceed | mayFail // it can be cancelled as well, which AllowFailure does not allow
	if n.When != "" || n.Wait != nil && n.Wait.OnTimeout == TimeoutSkip {
		may |= maySkip
	}
	return may
}

// compile reads the expressions.
func (f *Flow) compile() error {
	before := make([]ids, len(f.nodes)) // what comes before each
	var errs []error
	for _, i := range f.order {
		n := &f.nodes[i]
		before[i] = make(ids, len(f.nodes)/64+1)
		for _, e := range n.needs {
			before[i].add(e.from)
			before[i].addAll(before[e.from])
		}
		for j := range f.starts[n.in] { // the sections before
			before[i].add(j)
		}
		errs = append(errs, task.Within(n.field, f.compileStep(n, f.scope(before[i], n.Needs))))
	}
	if f.Output != nil {
		all := make(ids, len(f.nodes)/64+1)
		for i := range f.nodes {
			all.add(i)
		}
		var err error
		f.output, err = expr.ParseTemplate("output", f.Output, f.scope(all, nil))
		errs = append(errs, err)
	}
	return task.Join(errs...)
}

// ids is a set of nodes, by their indices.
type ids []uint64

func (s ids) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s ids) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s ids) addAll(other ids) {
	for i, word := range other {
		s[i] |= word
	}
}

// scope returns what expressions may name behind these steps.
func (f *Flow) scope(before ids, needs []string) expr.Scope {
	s := expr.Scope{Params: map[string]expr.Type{}}
	for i := range f.nodes {
		if before.has(i) {
			s.Steps = append(s.Steps, f.nodes[i].ID)
		}
	}
	for _, p := range f.Params {
		if slices.Contains(types, p.Type) {
			s.Params[p.Name] = p.Type
		} else {
			s.Params[p.Name] = expr.Any
		}
	}
	if len(needs) == 1 {
		s.Prev = needs[0]
	}
	return s
}

// compileStep reads the expressions of a step.
func (f *Flow) compileStep(n *node, s expr.Scope) error {
	var errs []error
	var reads []string
	condition := func(field, text string) *expr.Condition {
		c, err := expr.ParseCondition(field, text, s)
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		reads = append(reads, c.Steps()...)
		return c
	}
	if n.When != "" {
		n.when = condition("when", n.When)
	}
	for i, c := range n.Decide {
		if c.When != "" {
			n.choices = append(n.choices, condition(fmt.Sprintf("decide[%d].when", i), c.When))
		}
	}
	if n.Task != nil {
		s.Texts = n.Task.Type == task.CommandType // arguments, variables and stdin are texts
		payload, err := expr.ParseTemplate("task.payload", n.Task.Normalize().Payload, s)
		if err == nil && s.Texts {
			err = expr.CheckShell("task.payload", n.Task.Payload)
		}
		if err == nil && !payload.FitsIn(expr.ValueLimit) {
			const text = "is longer than %d KiB, the limit for a payload that has expressions"
			err = task.Invalid("task.payload", text, expr.ValueLimit>>10)
		}
		if err != nil {
			errs = append(errs, err)
		} else {
			n.payload = payload
			reads = append(reads, payload.Steps()...)
		}
	}
	if n.Wait != nil && n.Wait.Until != "" {
		until, err := parseUntil(n.Wait.Until, s)
		if err != nil {
			errs = append(errs, err)
		} else {
			n.until = until
			reads = append(reads, until.Steps()...)
		}
	}
	n.reads = f.indices(reads)
	return task.Join(errs...)
}

// parseUntil reads a moment with expressions. One without any is checked here.
func parseUntil(text string, s expr.Scope) (*expr.Template, error) {
	if !strings.Contains(text, "${{") {
		if _, err := untilOf(text); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	s.Texts = true
	return expr.ParseTemplate("wait.until", raw, s)
}

// indices returns the indices of steps, each once, sorted.
func (f *Flow) indices(ids []string) []int {
	var indices []int
	for _, id := range ids {
		indices = append(indices, f.byID[id])
	}
	slices.Sort(indices)
	return slices.Compact(indices)
}
