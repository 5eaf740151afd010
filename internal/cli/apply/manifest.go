package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
)

// countLimit is the most tasks that one entry may stand for.
const countLimit = 100_000

// The shapes of a document and of its entries.
type (
	documentShape struct {
		Namespace string          `json:"namespace,omitempty"`
		Schedules []scheduleShape `json:"schedules,omitempty"`
		Tasks     []taskShape     `json:"tasks,omitempty"`
	}
	scheduleShape struct {
		ID string `json:"id"`
		wire.ScheduleDefinition
	}
	taskShape struct {
		ID    string `json:"id"`
		Count *int   `json:"count,omitempty"`
		wire.Submission
	}
)

// manifest is everything that some files describe.
type manifest struct {
	schedules, tasks []entry
	namespaces       []string // that the files are about, sorted
}

// namespaces says which namespaces entries have.
type namespaces struct {
	required string // the only one that files may name; "" if they may name any
	fallback string // of entries that name none
}

// readManifest reads files and checks everything that can be checked without the server. Its error names all that is
// wrong with any of them.
func readManifest(stdin io.Reader, paths []string, spaces namespaces) (manifest, error) {
	sources, err := readSources(stdin, paths)
	errs := []error{err}
	r := manifestReader{namespaces: spaces, places: make(map[string]string), named: make(map[string]bool)}
	for _, src := range sources {
		errs = append(errs, r.read(src)...)
	}
	if err := errors.Join(errs...); err != nil {
		return manifest{}, command.Usagef("nothing was sent:\n%v", err)
	}
	switch {
	case !r.hasList: // a generator that failed must not lead to everything being pruned
		return manifest{}, command.Usagef("nothing was sent: there are no schedules and no tasks in the files")
	case len(r.named) == 0:
		r.named[spaces.fallback] = true
	}
	r.result.namespaces = slices.Sorted(maps.Keys(r.named))
	return r.result, nil
}

// manifestReader reads one file after the other.
type manifestReader struct {
	namespaces
	result  manifest
	places  map[string]string // where each schedule and task is described, by its kind, namespace and id
	named   map[string]bool   // the namespaces of the files and their entries
	hasList bool              // some document has a list, even an empty one
}

func (m *manifestReader) read(src source) []error {
	r := &yamlReader{file: src.name}
	for dec := yaml.NewDecoder(bytes.NewReader(src.text)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if err == nil {
			m.document(r, doc.Content[0])
			continue
		}
		if !errors.Is(err, io.EOF) {
			r.faults = append(r.faults, syntaxFault(err))
		}
		return r.errors()
	}
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
		m.hasList = true
		for i, item := range resolveAlias(pair.node).Content {
			m.entry(r, fmt.Sprintf("%s[%d]", pair.key, i), resolveAlias(item), namespace)
		}
	}
}

// withoutUnread leaves out "schedules:" and "tasks:" without a value, and keys that begin with x-, as for anchors that others
// refer to.
func withoutUnread(content []*yaml.Node) (kept []*yaml.Node) {
	for i := 0; i+1 < len(content); i += 2 {
		name, v := content[i].Value, content[i+1]
		if strings.HasPrefix(name, "x-") || (name == "schedules" || name == "tasks") && v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null" {
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
	if m.required != "" && m.required != namespace {
		r.complain(n, "namespace", "is %q here, but --namespace says %q", namespace, m.required)
	}
}

// entry adds one schedule or task. The reader has checked its form already.
func (m *manifestReader) entry(r *yamlReader, path string, n *yaml.Node, namespace string) {
	if n.Kind != yaml.MappingNode || r.nodes >= yamlNodes || len(r.faults) == yamlFaults {
		return
	}
	if namespace == "" {
		namespace = m.fallback
	}
	kind, shape := kindSchedule, reflect.TypeFor[scheduleShape]()
	if strings.HasPrefix(path, "tasks") {
		kind, shape = kindTask, reflect.TypeFor[taskShape]()
	}
	e := entry{kind: kind, namespace: namespace, file: r.file, node: n}
	quiet := &yamlReader{file: r.file} // r has complained about the form already
	var body []yamlPair
	for _, pair := range quiet.structPairs(n, "", shape) {
		switch pair.key {
		case "id":
			e.id = textOf(pair.raw)
			m.checkID(r, below(path, "id"), pair.node, e.id)
		case "namespace":
			e.namespace = textOf(pair.raw)
			m.addNamespace(r, pair.node, e.namespace)
		case "count":
			e.count = m.checkCount(r, below(path, "count"), pair)
		default:
			body = append(body, pair)
		}
	}
	m.named[e.namespace] = true
	m.checkUnique(r, &e)
	e.body = objectOf(body)
	if kind == kindTask {
		m.result.tasks = append(m.result.tasks, e)
	} else {
		m.result.schedules = append(m.result.schedules, e)
	}
}

func (m *manifestReader) checkID(r *yamlReader, path string, n *yaml.Node, id string) {
	if command.CheckName("id", id) != nil {
		r.complain(n, path, "%q cannot be a name", id)
	}
}

func (m *manifestReader) checkCount(r *yamlReader, path string, pair yamlPair) (count int) {
	if err := json.Unmarshal(pair.raw, &count); err == nil && (count < 1 || count > countLimit) {
		r.complain(pair.node, path, "%d must be 1 to %d", count, countLimit)
	}
	return max(0, min(count, countLimit))
}

// checkUnique complains about a schedule or task that was described before.
func (m *manifestReader) checkUnique(r *yamlReader, e *entry) {
	if e.id == "" {
		return
	}
	place := fmt.Sprintf("%s:%d", e.file, e.node.Line)
	for _, id := range e.ids() {
		name := e.kind + " " + e.namespace + "/" + id
		if first, ok := m.places[name]; ok {
			r.complain(e.node, "", "%s %q is in %s already", e.kind, id, first)
			return
		}
		m.places[name] = place
	}
}
