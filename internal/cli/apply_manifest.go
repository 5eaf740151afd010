package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/task"
)

// countLimit is how many tasks one entry may stand for.
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
		client.ScheduleDefinition
	}
	taskShape struct {
		ID    string `json:"id"`
		Count *int   `json:"count,omitempty"`
		client.Submission
	}
)

// What an entry is.
const (
	kindSchedule = "schedule"
	kindTask     = "task"
)

// wanted is an entry of a file.
type wanted struct {
	kind      string
	namespace string
	id        string
	count     int             // how many tasks it stands for; 0: one, with the id as it is
	body      json.RawMessage // all but the namespace, the count, and a schedule's id
	file      string
	node      *yaml.Node
}

// manifest is everything that some files want.
type manifest struct {
	schedules, tasks []wanted
	namespaces       []string // that the files are about, in order
}

// readManifests reads files and checks everything that can be checked without the server. Its error tells of all that
// is wrong with any of them.
func (s *session) readManifests(paths []string) (manifest, error) {
	sources, err := s.readSources(paths)
	faults := []error{err}
	m := manifestReader{
		flag: s.namespace, namespace: cmp.Or(orNothing(s.namespaceParam()), task.DefaultNamespace), seen: make(map[string]string),
		spaces: make(map[string]bool),
	}
	for _, src := range sources {
		faults = append(faults, m.read(src)...)
	}
	if err := errors.Join(faults...); err != nil {
		return manifest{}, usagef("nothing was sent:\n%v", err)
	}
	switch {
	case !m.said: // a generator that failed must not lead to everything being pruned
		return manifest{}, usagef("nothing was sent: there are no schedules and no tasks in the files")
	case len(m.spaces) == 0:
		m.spaces[m.namespace] = true
	}
	m.namespaces = slices.Sorted(maps.Keys(m.spaces))
	return m.manifest, nil
}

// manifestReader reads one file after the other.
type manifestReader struct {
	manifest
	flag      string            // -n
	namespace string            // of what names none
	seen      map[string]string // the place of each thing
	spaces    map[string]bool   // the namespaces that were named
	said      bool              // some document has a list, and be it an empty one
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

// errors are the faults, in the order of the file.
func (r *yamlReader) errors() []error {
	slices.SortStableFunc(r.faults, func(a, b fault) int { return a.line - b.line })
	all := make([]error, len(r.faults))
	for i, f := range r.faults {
		all[i] = fmt.Errorf("%s:%d: %s", r.file, f.line, f.text)
	}
	return all
}

var lineOfYAML = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntaxFault is an error of the YAML package. One without a line is about the first.
func syntaxFault(err error) fault {
	place := lineOfYAML.FindStringSubmatch(err.Error())
	f := fault{1, "is not YAML: " + err.Error()}
	if place != nil {
		f.text = "is not YAML: " + strings.TrimPrefix(err.Error(), place[0])
		f.line, _ = strconv.Atoi(cmp.Or(place[1], "1"))
	}
	return f
}

// document reads one document. Lists may be empty, and so may it.
func (m *manifestReader) document(r *yamlReader, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	n.Content = withoutEmpty(n.Content)
	namespace := ""
	all := r.members(n, "", reflect.TypeFor[documentShape]())
	for _, part := range all {
		if part.name == "namespace" {
			namespace = textOf(part.raw)
			m.about(r, part.node, namespace)
		}
	}
	for _, part := range all {
		if part.raw == nil || part.name == "namespace" {
			continue
		}
		m.said = true
		for i, entry := range resolved(part.node).Content {
			m.entry(r, fmt.Sprintf("%s[%d]", part.name, i), resolved(entry), namespace)
		}
	}
}

// withoutEmpty leaves out lists of which only the name is there.
func withoutEmpty(pairs []*yaml.Node) (kept []*yaml.Node) {
	for i := 0; i+1 < len(pairs); i += 2 {
		name, v := pairs[i].Value, pairs[i+1]
		if (name == "schedules" || name == "tasks") && v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null" {
			continue
		}
		kept = append(kept, pairs[i], v)
	}
	return kept
}

func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text) // what is no text has been complained about
	return text
}

// about takes down that the files say something about a namespace.
func (m *manifestReader) about(r *yamlReader, n *yaml.Node, namespace string) {
	m.spaces[namespace] = true
	if m.flag != "" && m.flag != namespace {
		r.complain(n, "namespace", "is %q here, but --namespace says %q", namespace, m.flag)
	}
}

// entry takes up one schedule or task, whose form has been checked.
func (m *manifestReader) entry(r *yamlReader, path string, n *yaml.Node, namespace string) {
	if n.Kind != yaml.MappingNode || r.nodes >= yamlNodes || len(r.faults) == yamlFaults {
		return
	}
	kind, shape := kindSchedule, reflect.TypeFor[scheduleShape]()
	if strings.HasPrefix(path, "tasks") {
		kind, shape = kindTask, reflect.TypeFor[taskShape]()
	}
	quiet := &yamlReader{file: r.file} // it has been complained already
	e := wanted{kind: kind, namespace: cmp.Or(namespace, m.namespace), file: r.file, node: n}
	var body []member
	for _, part := range quiet.members(n, "", shape) {
		switch part.name {
		case "id":
			e.id = textOf(part.raw)
			m.checkID(r, below(path, "id"), part.node, e)
		case "namespace":
			e.namespace = textOf(part.raw)
			m.about(r, part.node, e.namespace)
		case "count":
			e.count = m.checkCount(r, below(path, "count"), part)
		default:
			body = append(body, part)
		}
	}
	m.spaces[e.namespace] = true
	m.unique(r, e)
	e.body = object(body)
	if kind == kindTask {
		m.tasks = append(m.tasks, e)
	} else {
		m.schedules = append(m.schedules, e)
	}
}

func (m *manifestReader) checkID(r *yamlReader, path string, n *yaml.Node, e wanted) {
	if checkNames([]string{"id"}, []string{e.id}) != nil {
		r.complain(n, path, "%q cannot be a name", e.id)
	}
}

func (m *manifestReader) checkCount(r *yamlReader, path string, part member) (count int) {
	if err := json.Unmarshal(part.raw, &count); err == nil && (count < 1 || count > countLimit) {
		r.complain(part.node, path, "%d must be 1 to %d", count, countLimit)
	}
	return max(0, min(count, countLimit))
}

// unique complains about a thing that was there before.
func (m *manifestReader) unique(r *yamlReader, e wanted) {
	if e.id == "" {
		return
	}
	place := fmt.Sprintf("%s:%d", e.file, e.node.Line)
	for _, id := range e.ids() {
		name := e.kind + " " + e.namespace + "/" + id
		if first, ok := m.seen[name]; ok {
			r.complain(e.node, "", "%s %q is in %s already", e.kind, id, first)
			return
		}
		m.seen[name] = place
	}
}

// ids are those of the entry's tasks.
func (e wanted) ids() []string {
	if e.count == 0 {
		return []string{e.id}
	}
	ids := make([]string, e.count)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%04d", e.id, i+1)
	}
	return ids
}

// line is where the entry's file has a field that the API names, as task.retry.delays[0], or the nearest thing to it.
func (e wanted) line(path string) int {
	n, line := e.node, e.node.Line
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, at := stepInto(n, step)
		if next == nil {
			break
		}
		n, line = resolved(next), at
	}
	return line
}

// stepInto is a value of a mapping or list, and the line it begins in.
func stepInto(n *yaml.Node, step string) (*yaml.Node, int) {
	if i, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i], n.Content[i].Line
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1], n.Content[i].Line
		}
	}
	return nil, 0
}
