package codec

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/dts-sched/dts/internal/task"
)

// head is the first line of a stored definition. Fields that are left out have their default; times and durations are
// in ms.
type head struct {
	Type  string `json:"type"`
	Queue string `json:"queue,omitempty"`
	// Scripts read the fields up to here where they are: include/turn.lua knows their order.
	Priority   int    `json:"priority,omitempty"`
	FairKey    string `json:"fair_key,omitempty"`
	FairWeight int    `json:"fair_weight,omitempty"`
	LimitKey   string `json:"limit_key,omitempty"`
	Cost       int    `json:"cost,omitempty"`
	Reach      string `json:"reach,omitempty"`
	RouteKey   string `json:"route_key,omitempty"`

	RunAt     int64             `json:"at,omitempty"`
	Delay     int64             `json:"delay,omitempty"`
	Timeout   int64             `json:"timeout,omitempty"`
	Attempts  int               `json:"attempts,omitempty"`
	Elapsed   int64             `json:"elapsed,omitempty"` // retry.max_elapsed
	Backoff   *backoff          `json:"backoff,omitempty"`
	Delays    []int64           `json:"delays,omitempty"`
	Retention int64             `json:"retention,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	StartBy   int64             `json:"start_by,omitempty"` // scripts look for its name, with a comma before it
	OnEnd     *followUp         `json:"on_end,omitempty"`
	Parent    *task.Parent      `json:"parent,omitempty"`
	Once      *once             `json:"once,omitempty"`
}

// followUp is a task.FollowUp or, with tellsRun, the mark of a step of a run, which is told when the step ends.
// Scripts look for its name, with a comma before it, in heads.
type followUp struct {
	When    task.When       `json:"when"`
	Task    head            `json:"task,omitzero"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// tellsRun is the When of the mark that the tasks of steps have.
const tellsRun task.When = "step"

// once is a task.Once. The key is in the name of the task. Scripts look for the field, with a comma before it, in
// heads.
type once struct {
	Mode   task.OnceMode `json:"mode"`
	Wait   int64         `json:"wait,omitempty"`
	Max    int64         `json:"max,omitempty"`
	Every  int64         `json:"every,omitempty"`
	Excess task.Excess   `json:"excess,omitempty"`
}

type backoff struct {
	Initial int64    `json:"initial,omitempty"`
	Factor  float64  `json:"factor,omitempty"`
	Max     int64    `json:"max,omitempty"`
	Jitter  *float64 `json:"jitter,omitempty"`
}

// EncodeDefinition writes a definition as Redis holds it: the head as one line of JSON, a line break, the payload. The
// name is not part of it, and neither is the trace: see WithTrace. Equal definitions are equal byte for byte (JSON
// objects are written with sorted keys). Error: d holds something that JSON cannot.
//
// This is also the canonical form of a definition: its SHA-1 is kept of tasks that were changed or deleted. Nodes of
// all releases compare it, so it never changes. A new field is left out where it has its default. See SameContent.
func EncodeDefinition(d task.Definition) (string, error) {
	var room [256]byte
	if line, ok := appendPlainHead(room[:0], &d); ok {
		return string(line) + "\n" + string(d.Payload), nil
	}
	line, err := json.Marshal(headOf(d))
	if err != nil {
		return "", fmt.Errorf("encoding task %s: %w", d.Ref, err)
	}
	return string(line) + "\n" + string(d.Payload), nil
}

// headOf returns the first line of a definition.
func headOf(d task.Definition) head {
	h := head{
		Type: d.Type, Timeout: d.Timeout.Milliseconds(), Delay: d.Delay.Milliseconds(),
		Attempts: d.Retry.MaxAttempts, Elapsed: d.Retry.MaxElapsed.Milliseconds(), Retention: d.Retention.Milliseconds(),
		Owner: d.Owner, Labels: d.Labels, StartBy: d.StartBy.Milliseconds(), Parent: d.Parent,
		Priority: d.Priority, FairKey: d.FairKey, FairWeight: d.FairWeight, LimitKey: d.LimitKey, Cost: d.Cost,
		Reach: d.Reach, RouteKey: d.RouteKey,
	}
	if d.Queue != task.DefaultQueue {
		h.Queue = d.Queue
	}
	if !d.RunAt.IsZero() {
		h.RunAt = d.RunAt.UnixMilli()
	}
	if b := d.Retry.Backoff; b != (task.Backoff{}) {
		h.Backoff = &backoff{b.Initial.Milliseconds(), b.Factor, b.Max.Milliseconds(), b.Jitter}
	}
	for _, delay := range d.Retry.Delays {
		h.Delays = append(h.Delays, delay.Milliseconds())
	}
	if f := d.OnEnd; f != nil {
		h.OnEnd = &followUp{When: f.When, Task: headOf(f.Task), Payload: f.Task.Payload}
	}
	if _, _, ok := d.Run(); ok {
		h.OnEnd = &followUp{When: tellsRun}
	}
	if o := d.Once; o != nil {
		h.Once = &once{o.Mode, o.Wait.Milliseconds(), o.Max.Milliseconds(), o.Every.Milliseconds(), o.Excess}
	}
	return h
}

// SplitPayload separates a definition that EncodeDefinition wrote into what is stored in its place and its payload if
// that is stored apart, as split_payload in lua/include/definition.lua does; else the payload is "".
func SplitPayload(def string) (stored, payload string) {
	head, payload, _ := strings.Cut(def, "\n")
	if len(payload) <= task.InlinePayloadLimit {
		return def, ""
	}
	return head + "\n@" + Digest(payload), payload
}

// Digest is the SHA-1 of a text as Redis writes it.
func Digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DecodeHead reads the first line of a stored definition: everything but the payload. Error: the line is not JSON of
// the stored form.
func DecodeHead(ref task.Ref, line []byte) (task.Definition, error) {
	known := &heads[maphash.Bytes(headsSeed, line)%uint64(len(heads))]
	if k := known.Load(); k != nil && k.line == string(line) {
		d := k.definition
		d.Ref = ref
		if jitter := d.Retry.Backoff.Jitter; jitter != nil {
			own := *jitter
			d.Retry.Backoff.Jitter = &own
		}
		return d, nil
	}
	d, err := decodeHead(ref, line)
	if err == nil && mayShare(d) {
		known.Store(&knownHead{line: string(line), definition: d})
	}
	return d, err
}

// knownHead is a head that was decoded: tasks of one kind mostly have the same one, and to decode it takes 3 µs.
type knownHead struct {
	line       string
	definition task.Definition
}

var (
	heads     [64]atomic.Pointer[knownHead]
	headsSeed = maphash.MakeSeed()
)

// mayShare reports whether other tasks may have the same definition: but for the jitter it has nothing that points to
// what somebody could change, nor a time of its own.
func mayShare(d task.Definition) bool {
	own := !d.RunAt.IsZero() || d.Trace != ""
	return !own && d.Labels == nil && d.Retry.Delays == nil && d.OnEnd == nil && d.Parent == nil && d.Once == nil
}

func decodeHead(ref task.Ref, line []byte) (task.Definition, error) {
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return task.Definition{Ref: ref}, fmt.Errorf("its definition cannot be read: %w", err)
	}
	d := h.definition()
	d.Ref, d.Trace = ref, traceOf(line)
	if d.Queue == "" {
		d.Queue = task.DefaultQueue
	}
	if key, _, ok := ref.Key(); ok && d.Once != nil {
		d.Once.Key = key
	}
	return d, nil
}

// definition returns what the head of a definition says. Its queue is "" for the default.
func (h head) definition() task.Definition {
	d := task.Definition{
		Type: h.Type, Queue: h.Queue, RunAt: FromMS(h.RunAt), Delay: ms(h.Delay), Timeout: ms(h.Timeout),
		Retention: ms(h.Retention), Owner: h.Owner, Labels: h.Labels, StartBy: ms(h.StartBy),
		Parent: h.Parent, Priority: h.Priority, FairKey: h.FairKey, FairWeight: h.FairWeight,
		LimitKey: h.LimitKey, Cost: h.Cost,
		Reach: h.Reach, RouteKey: h.RouteKey,
		Retry: task.Retry{MaxAttempts: h.Attempts, MaxElapsed: ms(h.Elapsed)},
	}
	if b := h.Backoff; b != nil {
		d.Retry.Backoff = task.Backoff{Initial: ms(b.Initial), Factor: b.Factor, Max: ms(b.Max), Jitter: b.Jitter}
	}
	for _, delay := range h.Delays {
		d.Retry.Delays = append(d.Retry.Delays, ms(delay))
	}
	if o := h.Once; o != nil {
		d.Once = &task.Once{Mode: o.Mode, Wait: ms(o.Wait), Max: ms(o.Max), Every: ms(o.Every), Excess: o.Excess}
	}
	if f := h.OnEnd; f != nil && f.When != tellsRun {
		d.OnEnd = &task.FollowUp{When: f.When, Task: f.Task.definition()}
		d.OnEnd.Task.Payload = f.Payload
	}
	return d
}

// DecodeDefinition reads what EncodeDefinition wrote; ref is the task's name. Error: the first line is not JSON of the
// stored form.
func DecodeDefinition(ref task.Ref, def string) (task.Definition, error) {
	line, payload, _ := strings.Cut(def, "\n")
	d, err := DecodeHead(ref, []byte(line))
	d.Payload = json.RawMessage(payload)
	return d, err
}
