// Package manifest reads and writes the files that "dtsctl apply" takes, and compares definitions of schedules.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/api/wire"
)

// countLimit is the most tasks that one entry may stand for.
const countLimit = 100_000

// The shapes of a document and of its entries.
type (
	documentShape struct {
		Namespace string          `json:"namespace,omitempty"`
		Limits    []limitShape    `json:"limits,omitempty"`
		Workflows []Workflow      `json:"workflows,omitempty"`
		Schedules []scheduleShape `json:"schedules,omitempty"`
		Tasks     []taskShape     `json:"tasks,omitempty"`
	}
	limitShape struct {
		Name string `json:"name"`
		wire.LimitRule
	}
	scheduleShape struct {
		Schedule
		Task     *wire.TaskTemplate `json:"task,omitempty"`
		Workflow *startShape        `json:"workflow,omitempty"` // in place of task
	}
	startShape struct {
		ID     string         `json:"id"`
		Params wire.RunParams `json:"params,omitempty"`
	}
	taskShape struct {
		ID    string `json:"id"`
		Count *int   `json:"count,omitempty"`
		wire.Submission
	}
)

// Manifest is everything that some files describe.
type Manifest struct {
	Limits, Workflows, Schedules, Tasks []Entry
	Namespaces                          []string // that the files are about, sorted; limits have none
}

// Namespaces says which namespaces entries have.
type Namespaces struct {
	Required string // the only one that files may name; "" if they may name any
	Fallback string // of entries that name none
}

// ErrEmpty is the error for files without any list.
var ErrEmpty = errors.New("there are no limits, no workflows, no schedules and no tasks in the files")

// Source is the text of a file.
type Source struct {
	Name string // as faults name it
	Text []byte
}

// Read reads files and checks everything that can be checked without the server. faults are what is known to be wrong
// with others. Errors: Faults, which has all that is wrong with any of them, beside the limits, workflows and schedules
// without faults; ErrEmpty.
func Read(sources []Source, faults Faults, spaces Namespaces) (Manifest, error) {
	r := manifestReader{Namespaces: spaces, places: make(map[string]string), named: make(map[string]bool)}
	for _, src := range sources {
		faults = append(faults, r.read(src)...)
	}
	switch {
	case len(faults) > 0:
		return r.sound(), faults
	case !r.hasList: // a generator that failed must not lead to everything being pruned
		return Manifest{}, ErrEmpty
	case len(r.named) == 0 && r.hasOther:
		r.named[spaces.Fallback] = true
	}
	r.result.Namespaces = slices.Sorted(maps.Keys(r.named))
	return r.result, nil
}

// manifestReader reads one file after the other.
type manifestReader struct {
	Namespaces
	result   Manifest
	places   map[string]string // where each entry is described, by its kind, namespace and id
	named    map[string]bool   // the namespaces of the files and their entries
	hasList  bool              // some document has a list, even an empty one
	hasOther bool              // some document has a list of what has a namespace
}

// sound returns the limits and workflows without faults, and the schedules that have none and run no workflow with
// some.
func (m *manifestReader) sound() Manifest {
	faulty := make(map[Ref]bool)
	for _, e := range m.result.Workflows {
		faulty[e.Ref()] = e.faulty
	}
	return Manifest{
		Limits:    slices.DeleteFunc(m.result.Limits, func(e Entry) bool { return e.faulty }),
		Workflows: slices.DeleteFunc(m.result.Workflows, func(e Entry) bool { return e.faulty }),
		Schedules: slices.DeleteFunc(m.result.Schedules, func(e Entry) bool {
			workflow, _ := e.Runs() // with no id if it runs none, as no workflow has
			return e.faulty || faulty[workflow]
		}),
	}
}

func (m *manifestReader) read(src Source) Faults {
	r := &yamlReader{file: src.Name, limit: yamlNodes + len(src.Text)}
	broken := documents(src, func(doc *yaml.Node) { m.document(r, doc) })
	return append(r.faults, broken...).InOrder()
}

// document reads one document. It may be empty, and so may its lists.
func (m *manifestReader) document(r *yamlReader, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind == yaml.MappingNode {
		n.Content = withoutUnread(n.Content)
	}
	namespace := ""
	pairs := r.structPairs(n, "", reflect.TypeFor[documentShape]())
	for _, pair := range pairs {
		if pair.key == "namespace" {
			namespace = textOf(pair.raw)
			m.addNamespace(r, pair.node, namespace)
		}
	}
	for _, pair := range pairs {
		if pair.raw == nil || pair.key == "namespace" {
			continue
		}
		m.hasList, m.hasOther = true, m.hasOther || pair.key != limitList
		for i, item := range resolveAlias(pair.node).Content {
			m.entry(r, fmt.Sprintf("%s[%d]", pair.key, i), resolveAlias(item), namespace)
		}
	}
}

// lists are the keys of a document that have entries.
var lists = []string{limitList, "workflows", "schedules", "tasks"}

const limitList = "limits"

// withoutUnread leaves out lists without a value, as "schedules:", and keys that begin with x-, as for anchors that
// others refer to.
func withoutUnread(content []*yaml.Node) (kept []*yaml.Node) {
	for i := 0; i+1 < len(content); i += 2 {
		name, v := content[i].Value, content[i+1]
		isList := slices.Contains(lists, name)
		if strings.HasPrefix(name, "x-") || isList && v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null" {
			continue
		}
		kept = append(kept, content[i], v)
	}
	return kept
}

// textOf returns a JSON string's text. For anything else it returns "": the reader has complained already.
func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}

// addNamespace notes that the files name a namespace.
func (m *manifestReader) addNamespace(r *yamlReader, n *yaml.Node, namespace string) {
	m.named[namespace] = true
	if m.Required != "" && m.Required != namespace {
		r.complain(n, "namespace", "is %q here, but --namespace says %q; "+
			"to apply it there, remove this namespace from the file, or change it", namespace, m.Required)
	}
}

// entry adds one limit, workflow, schedule or task. The reader has checked its form already.
func (m *manifestReader) entry(r *yamlReader, path string, n *yaml.Node, namespace string) {
	if n.Kind != yaml.MappingNode || r.nodes >= r.limit || len(r.faults) == yamlFaults {
		return
	}
	if namespace == "" {
		namespace = m.Fallback
	}
	list, _, _ := strings.Cut(path, "[")
	kind, shape, entries := m.listed(list)
	e := Entry{Kind: kind, Namespace: namespace, file: r.file, path: path, node: n}
	before := len(r.faults)
	quiet := &yamlReader{file: r.file, limit: r.limit} // r has complained about the form already
	var body []yamlPair
	for _, pair := range quiet.structPairs(n, "", shape) {
		switch pair.key {
		case "id", "name":
			e.ID = textOf(pair.raw)
			m.checkID(r, below(path, pair.key), pair.node, e.ID)
		case "namespace":
			e.Namespace = textOf(pair.raw)
			m.addNamespace(r, pair.node, e.Namespace)
		case "count":
			e.Count = m.checkCount(r, below(path, "count"), pair)
		default:
			body = append(body, pair)
		}
	}
	if kind == KindLimit {
		e.Namespace = ""
	} else {
		m.named[e.Namespace] = true
	}
	m.checkUnique(r, &e)
	if kind == KindSchedule {
		body = e.readTask(r, body)
	}
	e.Body = objectOf(body)
	e.faulty = len(quiet.faults) > 0 || len(r.faults) > before
	*entries = append(*entries, e)
}

// listed returns what the entries of a list are, and where they are added.
func (m *manifestReader) listed(list string) (kind string, shape reflect.Type, entries *[]Entry) {
	switch list {
	case limitList:
		return KindLimit, reflect.TypeFor[limitShape](), &m.result.Limits
	case "workflows":
		return KindWorkflow, reflect.TypeFor[Workflow](), &m.result.Workflows
	case "tasks":
		return KindTask, reflect.TypeFor[taskShape](), &m.result.Tasks
	}
	return KindSchedule, reflect.TypeFor[scheduleShape](), &m.result.Schedules
}

func (m *manifestReader) checkID(r *yamlReader, path string, n *yaml.Node, id string) {
	switch id {
	case "":
		r.complain(n, path, "is missing")
	case ".", "..": // no path could have it
		r.complain(n, path, "%q cannot be a name", id)
	}
}

func (m *manifestReader) checkCount(r *yamlReader, path string, pair yamlPair) (count int) {
	if err := json.Unmarshal(pair.raw, &count); err == nil && (count < 1 || count > countLimit) {
		r.complain(pair.node, path, "%d must be 1 to %d", count, countLimit)
	}
	return max(0, min(count, countLimit))
}

// checkUnique complains about an entry that was described before.
func (m *manifestReader) checkUnique(r *yamlReader, e *Entry) {
	if e.ID == "" {
		return
	}
	place := fmt.Sprintf("%s:%d", e.file, e.node.Line)
	for _, id := range e.IDs() {
		name := e.Kind + " " + e.Namespace + "/" + id
		if first, ok := m.places[name]; ok {
			r.complain(e.node, "", "%s %q is in %s already", e.Kind, id, first)
			return
		}
		m.places[name] = place
	}
}
