// Package workflows keeps workflows under their names, with their earlier revisions, and the lines of their runs.
package workflows

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
	"github.com/dts-sched/dts/lua"
)

// ErrMoved is returned if another revision is in force than the expected one. Nothing was written.
var ErrMoved = errors.New("the workflow has changed since it was read")

// Workflows reads and changes the workflows of one installation.
type Workflows struct{ l *layout.Layout }

// New returns the workflows of an installation.
func New(l *layout.Layout) *Workflows { return &Workflows{l: l} }

// Get reads a workflow. Errors: workflow.CodeNotFound, CodeUnreadable, CodeUnavailable.
func (s *Workflows) Get(ctx context.Context, ref task.Ref) (workflow.Stored, error) {
	found, err := s.GetEach(ctx, []task.Ref{ref})
	switch {
	case err != nil:
		return workflow.Stored{}, err
	case found[0].Err != nil:
		return workflow.Stored{}, found[0].Err
	}
	return found[0].Stored, nil
}

// Read is a workflow that was read or, in Err, why it was not.
type Read struct {
	workflow.Stored
	Places int   // in its line
	Err    error // workflow.CodeNotFound, CodeUnreadable
}

// GetEach reads workflows, in the order of their names. Error: CodeUnavailable.
func (s *Workflows) GetEach(ctx context.Context, refs []task.Ref) ([]Read, error) {
	pipe := s.l.DB.Pipeline()
	found, lines := make([]*redis.MapStringStringCmd, len(refs)), make([]*redis.IntCmd, len(refs))
	for i, ref := range refs {
		k := s.l.KeysOf(ref)
		found[i], lines[i] = pipe.HGetAll(ctx, string(k.Workflow(ref))), pipe.ZCard(ctx, string(k.Line(ref)))
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	read := make([]Read, len(refs))
	for i, ref := range refs {
		if len(found[i].Val()) == 0 {
			read[i].Err = notFound(ref)
			continue
		}
		read[i].Stored, read[i].Err = decode(ref, found[i].Val())
		read[i].Places = int(lines[i].Val())
	}
	return read, nil
}

// Put stores a valid definition as a new revision of a workflow, which it creates if base is 0. base is the revision it
// replaces. by is who puts it, "" if nobody knows. Errors: ErrMoved, CodeUnavailable.
func (s *Workflows) Put(ctx context.Context, d workflow.Definition, base int, by string) (workflow.Stored, error) {
	def, err := text.Encode(d)
	if err != nil {
		return workflow.Stored{}, err
	}
	k := s.l.KeysOf(d.Ref)
	reply, err := redisx.Run(ctx, s.l.DB, lua.PutWorkflow{
		Workflow: k.Workflow(d.Ref), Revisions: k.Revisions(d.Ref), Workflows: k.Workflows(),
		Member: d.Ref, Base: base, Def: def, By: by, Nonce: rand.Text(), Changes: s.l.Keys.Changes(),
	})
	if err != nil {
		return workflow.Stored{}, publicError(err, d.Ref)
	}
	return decode(d.Ref, reply.Workflow)
}

// Pause keeps further runs of a workflow from beginning. note says why; "" keeps that of an earlier pause. Errors:
// workflow.CodeNotFound, CodeUnavailable.
func (s *Workflows) Pause(ctx context.Context, ref task.Ref, note, by string) (workflow.Stored, error) {
	return s.setPaused(ctx, ref, true, note, by)
}

// Resume lets runs of a workflow begin again. Errors: as of Pause.
func (s *Workflows) Resume(ctx context.Context, ref task.Ref, by string) (workflow.Stored, error) {
	return s.setPaused(ctx, ref, false, "", by)
}

func (s *Workflows) setPaused(
	ctx context.Context, ref task.Ref, pause bool, note, by string,
) (workflow.Stored, error) {
	reply, err := redisx.Run(ctx, s.l.DB, lua.PauseWorkflow{
		Workflow: s.l.KeysOf(ref).Workflow(ref), Member: ref, Pause: pause, Note: note, By: by,
		Changes: s.l.Keys.Changes(),
	})
	if err != nil {
		return workflow.Stored{}, publicError(err, ref)
	}
	return decode(ref, reply.Workflow)
}

// Delete deletes a workflow of that revision, 0 for any. Errors: ErrMoved, workflow.CodeNotFound, CodeUnavailable.
func (s *Workflows) Delete(ctx context.Context, ref task.Ref, revision int, by string) error {
	k := s.l.KeysOf(ref)
	_, err := redisx.Run(ctx, s.l.DB, lua.DeleteWorkflow{
		Workflow: k.Workflow(ref), Revisions: k.Revisions(ref), Workflows: k.Workflows(), Line: k.Line(ref),
		Member: ref, Base: revision, By: by, Changes: s.l.Keys.Changes(),
	})
	return publicError(err, ref)
}

// History reads the earlier revisions of a workflow that are kept, newest first. Those that cannot be read are left
// out. Error: CodeUnavailable.
func (s *Workflows) History(ctx context.Context, ref task.Ref) ([]workflow.Revision, error) {
	entries, err := s.l.DB.LRange(ctx, string(s.l.KeysOf(ref).Revisions(ref)), 0, -1).Result()
	if err != nil {
		return nil, layout.Unavailable(err)
	}
	var revisions []workflow.Revision
	for _, entry := range entries {
		if r, err := decodeRevision(ref, entry); err == nil {
			revisions = append(revisions, r)
		}
	}
	return revisions, nil
}

// Names reads the names of up to limit workflows of a namespace, "*" for all, that begin with a prefix and come after
// another name, sorted. Error: CodeUnavailable.
func (s *Workflows) Names(ctx context.Context, namespace, prefix, after string, limit int) ([]task.Ref, error) {
	low, high := "["+namespace+":"+prefix, "("+namespace+":"+prefix+"\xff"
	if namespace == "*" {
		low, high = "-", "+"
	}
	if after != "" {
		low = "(" + after
	}
	pipe := s.l.DB.Pipeline()
	found := make([]*redis.StringSliceCmd, s.l.Partitions())
	for p := range found {
		found[p] = pipe.ZRangeByLex(ctx, string(s.l.Keys.Partition(p).Workflows()),
			&redis.ZRangeBy{Min: low, Max: high, Count: int64(limit)})
	}
	if err := redisx.ExecReads(ctx, pipe); err != nil {
		return nil, layout.Unavailable(err)
	}
	var refs []task.Ref
	for _, names := range found {
		refs = append(refs, layout.RefsOf(names.Val())...)
	}
	slices.SortFunc(refs, func(a, b task.Ref) int { return cmp.Compare(a.String(), b.String()) })
	return refs[:min(len(refs), limit)], nil
}

// Named returns the names of up to limit workflows of some namespaces whose ids begin with a prefix, sorted. Error:
// CodeUnavailable.
func (s *Workflows) Named(ctx context.Context, namespaces []string, prefix string, limit int) ([]task.Ref, error) {
	set := func(p int) string { return string(s.l.Keys.Partition(p).Workflows()) }
	return s.l.Named(ctx, set, namespaces, prefix, limit)
}

// Check says why nobody can read a workflow that has that hash; nil if everybody can.
func Check(ref task.Ref, hash map[string]string) error {
	_, err := decode(ref, hash)
	return err
}

// decode reads a workflow from its hash. Error: CodeUnreadable.
func decode(ref task.Ref, hash map[string]string) (s workflow.Stored, _ error) {
	d, err := text.Parse(ref.Namespace, hash["def"])
	s.Definition = d
	s.Ref, s.By, s.PausedBy, s.PauseNote = ref, hash["by"], hash["paused_by"], hash["note"]
	if err == nil {
		s.Revision, err = strconv.Atoi(hash["revision"])
	}
	for field, at := range map[string]*time.Time{
		"created": &s.CreatedAt, "from": &s.UpdatedAt, "paused": &s.PausedAt,
	} {
		if value := hash[field]; value != "" && err == nil {
			*at, err = moment(value)
		}
	}
	if err != nil {
		return s, task.Errorf(task.CodeUnreadable, "workflow %q cannot be read: %s", ref.ID, err)
	}
	return s, nil
}

// CheckRevision says why nobody can read an entry of the revisions of a workflow; nil if everybody can.
func CheckRevision(entry string) error {
	_, err := decodeRevision(task.Ref{Namespace: task.DefaultNamespace}, entry)
	return err
}

// decodeRevision reads an entry of the revisions of a workflow.
func decodeRevision(ref task.Ref, entry string) (r workflow.Revision, _ error) {
	var in struct {
		Revision, From, Def, By string
	}
	if err := json.Unmarshal([]byte(entry), &in); err != nil {
		return r, err
	}
	number, err := strconv.Atoi(in.Revision)
	if err != nil {
		return r, err
	}
	r.Number, r.By = number, in.By
	if r.From, err = moment(in.From); err != nil {
		return r, err
	}
	r.Definition, err = text.Parse(ref.Namespace, in.Def)
	r.Definition.Ref = ref
	return r, err
}

// moment reads a time in ms.
func moment(ms string) (time.Time, error) {
	n, err := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(n).UTC(), err
}

// publicError translates a refusal of a script. nil stays nil.
func publicError(err error, ref task.Ref) error {
	switch {
	case err == nil:
		return nil
	case redisx.RefusedWith(err, lua.CodeNotFound):
		return notFound(ref)
	case redisx.RefusedWith(err, lua.CodeChanged):
		return fmt.Errorf("workflow %s: %w", ref, ErrMoved)
	}
	return layout.Unavailable(err)
}

func notFound(ref task.Ref) error {
	return task.Errorf(workflow.CodeNotFound, "no workflow %q in namespace %q", ref.ID, ref.Namespace)
}
