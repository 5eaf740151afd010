package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const nameAlphabet = "A-Z a-z 0-9 . _ -"

// isName reports whether a text has only characters of nameAlphabet, and at least one.
func isName(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return text != ""
}

// ValidateRef checks the name of a task in a request that reads or changes a task. It accepts the ids of ticks
// ("nightly@20260102T150405Z"), of follow-ups ("order-1@e2"), of tasks with a key ("tenant-7@k01J") and of steps
// ("etl@.load"), which clients do not choose as a whole. Error: CodeInvalid.
func ValidateRef(r Ref) error {
	if err := ValidateName("namespace", r.Namespace); err != nil {
		return err
	}
	if !strings.Contains(r.ID, "@") {
		return ValidateName("id", r.ID)
	}
	if len(r.ID) > IDLimit {
		return Invalid("id", "is %d characters long, at most %d are allowed", len(r.ID), IDLimit)
	}
	for i, part := range strings.Split(r.ID, "@") {
		if !isName(part) || i > 1 && !strings.HasPrefix(part, "e") && !strings.HasPrefix(part, ".") {
			const want = "%q must be the id of a schedule or a task, an @ and a tick, a follow-up or a step, of %s"
			return Invalid("id", want, r.ID, nameAlphabet)
		}
	}
	return nil
}

// ValidateQueue checks the name of a queue. Error: CodeInvalid.
func ValidateQueue(name string) error { return ValidateName("queue", name) }

// Normalize sets a missing namespace, queue or payload to the default, compacts the payload and cuts times to whole ms. Call
// it before Validate.
func (d Definition) Normalize() Definition {
	if d.Namespace == "" {
		d.Namespace = DefaultNamespace
	}
	switch {
	case d.Queue != "":
	case d.Type == WorkflowType:
		d.Queue = WorkflowQueue
	default:
		d.Queue = DefaultQueue
	}
	if d.Type == WorkflowType && d.Retry.MaxAttempts == 0 {
		d.Retry.MaxAttempts = 1 // a run that has failed begins again when somebody says so
	}
	if len(d.Payload) == 0 {
		d.Payload = json.RawMessage("{}")
	}
	d.Payload = compacted(d.Payload)
	d.RunAt = d.RunAt.UTC().Truncate(time.Millisecond)
	d.OnEnd = d.OnEnd.normalize()
	d.Once = d.Once.normalize()
	d.FairWeight = normalOne(d.FairWeight)
	d.Cost = normalOne(d.Cost)
	return d
}

// compacted returns JSON without blanks between its tokens, and what is none as it is.
func compacted(payload json.RawMessage) json.RawMessage {
	if !hasBlanks(payload) {
		return payload
	}
	var compact bytes.Buffer
	if json.Compact(&compact, payload) != nil {
		return payload
	}
	return compact.Bytes()
}

// hasBlanks reports whether JSON has blanks between its tokens. Of what is no JSON, it may say either.
func hasBlanks(payload json.RawMessage) bool {
	quoted := false
	for i := 0; i < len(payload); i++ {
		switch c := payload[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++ // in JSON, it is in a text
		case c <= ' ' && !quoted:
			return true
		}
	}
	return false
}

// Validate checks a normalized definition; now is the current time. Its error is an *Error with CodeInvalid and the field,
// and its message says what would be valid. It names all fields that are invalid.
func (d Definition) Validate(now time.Time) error {
	return Join(
		ValidateName("namespace", d.Namespace),
		d.validateOwnID(),
		ValidateType(d.Type),
		d.ValidateQueue(),
		ValidatePayload(d.Payload),
		d.validateDue(now),
		validateSpan("timeout", d.Timeout, TimeoutLimit),
		validateSpan("retention", d.Retention, RetentionLimit),
		validateSpan("start_by", d.StartBy, HorizonLimit),
		d.validateRetry(),
		ValidateText("owner", d.Owner, OwnerLimit),
		validateLabels(d.Labels),
		d.validateOnEnd(0),
		d.ValidateRoom(len(d.ID)),
		d.validateOnce(),
		d.validateTurn(),
		d.validateRun(),
	)
}

// ValidateQueue checks the queue of a normalized definition: runs of workflows have one that no client can name. Error:
// CodeInvalid.
func (d Definition) ValidateQueue() error {
	if d.Type == WorkflowType && d.Queue == WorkflowQueue {
		return nil
	}
	return ValidateQueue(d.Queue)
}

// ValidateName checks a name, which a field has: 1 to IDLimit characters that can stand in a URL. Error: CodeInvalid.
func ValidateName(field, name string) error { return validateName(field, name, IDLimit) }

func validateName(field, name string, limit int) error {
	if len(name) > limit {
		return Invalid(field, "is %d characters long, at most %d are allowed", len(name), limit)
	}
	if !isName(name) {
		return Invalid(field, "%q must be 1 to %d characters of %s", name, limit, nameAlphabet)
	}
	if name == "." || name == ".." { // they have another meaning in the path of a URL
		return Invalid(field, "%q cannot be a name; add another character", name)
	}
	return nil
}

// ValidateNewID checks the id of what a client creates. Error: CodeInvalid.
func ValidateNewID(id string) error { return ValidateShortID(id, IDLimit) }

// ValidateShortID is ValidateNewID for an id that has at most limit characters. Error: CodeInvalid.
func ValidateShortID(id string, limit int) error {
	if strings.Contains(id, "@") {
		return Invalid("id", "%q must not contain @, which is reserved for ticks and follow-ups; use %s", id, nameAlphabet)
	}
	return validateName("id", id, limit)
}

// ValidateType checks the name of a type. Error: CodeInvalid.
func ValidateType(name string) error {
	switch {
	case name == "":
		return Invalid("type", "is missing: name the executor that runs the task")
	case len(name) > TypeLimit:
		return Invalid("type", "is %d characters long, at most %d are allowed", len(name), TypeLimit)
	case !isName(name):
		return Invalid("type", "%q must contain only characters of %s", name, nameAlphabet)
	}
	return nil
}

// ValidatePayload checks a payload. Error: CodeInvalid.
func ValidatePayload(p json.RawMessage) error {
	switch {
	case len(p) > PayloadLimit:
		return Invalid("payload", "is %d bytes long, at most %d are allowed", len(p), PayloadLimit)
	case !jsontext.Value(p).IsValid():
		return Invalid("payload", "is not valid JSON: %s", strings.TrimPrefix(jsonError(p).Error(), "jsontext: "))
	case depth(p) > DepthLimit:
		return Invalid("payload", "is nested %d levels deep, at most %d are allowed", depth(p), DepthLimit)
	}
	return nil
}

// jsonError says why a payload is not valid. A member that is given twice and text that is no Unicode are refused, because readers of
// JSON understand them in different ways.
func jsonError(p json.RawMessage) error {
	strict := jsontext.NewDecoder(bytes.NewReader(p))
	if _, err := strict.ReadValue(); err != nil {
		return err
	}
	return errors.New("something follows the value")
}

// depth returns the number of levels of nested arrays and objects in valid JSON. Many JSON parsers refuse deep nesting, and
// one such payload would keep a client from reading every list that contains it.
func depth(p json.RawMessage) int {
	deepest, level := 0, 0
	quoted, escaped := false, false
	for _, b := range p {
		switch {
		case escaped:
			escaped = false
		case b == '\\':
			escaped = quoted
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[' || b == '{':
			level++
			deepest = max(deepest, level)
		case b == ']' || b == '}':
			level--
		}
	}
	return deepest
}

func (d Definition) validateDue(now time.Time) error {
	switch {
	case !d.RunAt.IsZero() && d.Delay != 0:
		return Invalid("delay", "give run_at or delay, not both")
	case d.Delay < 0:
		return Invalid("delay", "%s is negative", d.Delay)
	case d.Delay%time.Millisecond != 0:
		return Invalid("delay", "%s is not a whole number of milliseconds", d.Delay)
	case d.Delay > HorizonLimit:
		return Invalid("delay", "%s is too far ahead, at most %s is allowed", d.Delay, HorizonLimit)
	case d.RunAt.Sub(now) > HorizonLimit:
		return Invalid("run_at", "%s is too far ahead, at most %s from now is allowed", d.RunAt.Format(time.RFC3339), HorizonLimit)
	case !d.RunAt.IsZero() && d.RunAt.Year() < 2000:
		return Invalid("run_at", "%s must not be before the year 2000", d.RunAt.Format(time.RFC3339))
	}
	return nil
}

// validateSpan checks that a duration is 0 to limit, in whole ms.
func validateSpan(field string, d, limit time.Duration) error {
	switch {
	case d < 0:
		return Invalid(field, "%s is negative", d)
	case d%time.Millisecond != 0:
		return Invalid(field, "%s is not a whole number of milliseconds", d)
	case d > limit:
		return Invalid(field, "%s is too long, at most %s is allowed", d, limit)
	}
	return nil
}

func validateLabels(labels map[string]string) error {
	if len(labels) > LabelsLimit {
		return Invalid("labels", "has %d entries, at most %d are allowed", len(labels), LabelsLimit)
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k == "" {
			return Invalid("labels", "has a label without a name; give it one")
		}
		if err := ValidateText("labels", k, LabelLimit); err != nil {
			return err
		}
		if err := ValidateText("labels."+k, labels[k], LabelLimit); err != nil {
			return err
		}
	}
	return nil
}

// ValidateText checks that a text is valid UTF-8 of at most limit bytes. Error: CodeInvalid.
func ValidateText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return Invalid(field, "is %d bytes long, at most %d are allowed", len(s), limit)
	case !utf8.ValidString(s):
		return Invalid(field, "is not valid UTF-8")
	}
	return nil
}

// ValidateLine is ValidateText for a text without control characters, as it is shown to people. instead says what would
// be right. Error: CodeInvalid.
func ValidateLine(field, s string, limit int, instead string) error {
	if err := ValidateText(field, s, limit); err != nil {
		return err
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return Invalid(field, "has a control character: %s", instead)
	}
	return nil
}

// Root returns the part of the id that determines the partition: everything up to the first "@".
func (r Ref) Root() string {
	root, _, _ := strings.Cut(r.ID, "@")
	return root
}

// CompactCheckpoint returns a checkpoint as it is stored: JSON without blanks, of at most CheckpointLimit bytes and
// DepthLimit levels.
// Error: CodeInvalid.
func CompactCheckpoint(checkpoint json.RawMessage) (json.RawMessage, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, checkpoint); err != nil {
		return nil, Invalid("checkpoint", "is not JSON: %v", err)
	}
	if compact.Len() > CheckpointLimit {
		return nil, Invalid("checkpoint", "has %d bytes as compact JSON, at most %d are allowed", compact.Len(), CheckpointLimit)
	}
	if levels := depth(compact.Bytes()); levels > DepthLimit {
		return nil, Invalid("checkpoint", "is nested %d levels deep, at most %d are allowed", levels, DepthLimit)
	}
	return compact.Bytes(), nil
}
