package graph

import (
	"fmt"
	"strings"
)

// Section is a part of a workflow whose steps need only each other.
type Section struct {
	Name  string // as the definition calls it: steps, on_failure or finally
	Steps []Step
}

// Sections returns steps by their sections, given what says the section of a step and how it is drawn. Steps of one
// section follow each other.
func Sections[S any](steps []S, of func(S) (section string, drawn Step)) (sections []Section) {
	for _, s := range steps {
		name, drawn := of(s)
		if len(sections) == 0 || sections[len(sections)-1].Name != name {
			sections = append(sections, Section{Name: name})
		}
		in := &sections[len(sections)-1]
		in.Steps = append(in.Steps, drawn)
	}
	return sections
}

// SectionsOf returns the steps of a definition by their sections, given how a step is drawn.
func SectionsOf[S any](steps, onFailure, finally []S, drawn func(S) Step) (sections []Section) {
	for _, part := range []struct {
		name  string
		steps []S
	}{{"steps", steps}, {"on_failure", onFailure}, {"finally", finally}} {
		in := func(s S) (string, Step) { return part.name, drawn(s) }
		sections = append(sections, Sections(part.steps, in)...)
	}
	return sections
}

// Text draws all sections, one below the other. The first one has no heading, and the others have their names.
func Text(sections []Section, o Options) string {
	var text strings.Builder
	for i, s := range sections {
		if i > 0 {
			text.WriteString("\n" + s.Name + ":\n")
		}
		text.WriteString(Draw(s.Steps, o))
	}
	return text.String()
}

// colours are those of the states in a graph for Graphviz. Other states have none.
var colours = map[string]string{
	"active": "lightblue", "succeeded": "palegreen", "failed": "salmon", "cancelled": "orange", "skipped": "lightgrey",
	"upstream_failed": "mistyrose",
}

// DOT writes the graph for Graphviz, with a cluster for each section but the first.
func DOT(name string, sections []Section) string {
	var text strings.Builder
	fmt.Fprintf(&text, "digraph %q {\n\tnode [shape=box, style=\"rounded,filled\", fillcolor=white]\n", name)
	for i, section := range sections {
		if i > 0 {
			fmt.Fprintf(&text, "\tsubgraph cluster_%s {\n\tlabel=%q\n", section.Name, section.Name)
		}
		for _, s := range section.Steps {
			writeDOT(&text, s)
		}
		if i > 0 {
			text.WriteString("\t}\n")
		}
	}
	text.WriteString("}\n")
	return text.String()
}

// writeDOT writes a step, and the edges that lead to it. Ids of steps need no escapes beyond those of %q.
func writeDOT(text *strings.Builder, s Step) {
	fmt.Fprintf(text, "\t%q", s.ID)
	if s.State != "" {
		fmt.Fprintf(text, " [label=\"%s\\n%s\"", s.ID, s.State)
		if colour, known := colours[s.State]; known {
			fmt.Fprintf(text, ", fillcolor=%s", colour)
		}
		text.WriteString("]")
	}
	text.WriteString("\n")
	for _, from := range s.Needs {
		fmt.Fprintf(text, "\t%q -> %q\n", from, s.ID)
	}
}
