package dts

import "slices"

// Steps are steps of a workflow, in any order.
type Steps []Step

// Part is what [Chain] and [Group] are made of: a Step, or Steps.
type Part interface{ steps() Steps }

func (s Step) steps() Steps  { return Steps{s} }
func (s Steps) steps() Steps { return s }

// Chain returns the steps of all parts, which run one part after the other: what begins a part needs all that ends the
// part before. A Group in a Chain fans out, and the part behind it fans in. "${{ prev.output }}" is the output of the
// step before, if that is a single one.
func Chain(parts ...Part) Steps {
	var chain Steps
	var ends []string // ids of the steps that end the part before
	for _, part := range parts {
		steps := part.steps()
		if len(steps) == 0 {
			continue
		}
		own := steps.ids()
		for _, s := range steps {
			if !slices.ContainsFunc(s.Needs, func(id string) bool { return own[id] }) {
				s.Needs = union(s.Needs, ends)
			}
			chain = append(chain, s)
		}
		ends = steps.ends()
	}
	return chain
}

// Group returns the steps of all parts, which run side by side.
func Group(parts ...Part) Steps {
	var group Steps
	for _, part := range parts {
		group = append(group, part.steps()...)
	}
	return group
}

// Chord returns the steps of a group and one more, which runs when all of them have succeeded. It is a Chain of both.
func Chord(group Steps, then Step) Steps { return Chain(group, then) }

func (s Steps) ids() map[string]bool {
	ids := make(map[string]bool, len(s))
	for _, step := range s {
		ids[step.ID] = true
	}
	return ids
}

// ends returns the ids of the steps that no other one of them needs.
func (s Steps) ends() (ids []string) {
	needed := make(map[string]bool)
	for _, step := range s {
		for _, id := range step.Needs {
			needed[id] = true
		}
	}
	for _, step := range s {
		if !needed[step.ID] {
			ids = append(ids, step.ID)
		}
	}
	return ids
}

// union returns all of a, and those of b that are not in it. It changes neither.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, id := range b {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}
