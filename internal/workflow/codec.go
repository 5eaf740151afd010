package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The text of a run has a line for the run and one for each step:
//
//	1 <plans> <attempt> <phase> <marks> <begun> <closing> "<signals as JSON>"
//	b<generation>                                                blocked
//	a<generation> <released> <at>                                active
//	a<generation> <released> <at> 1 "<reason>"                   active, told to stop
//	w<generation> <released> <at> <until>                        waiting
//	<verdict><generation> <released> <decided> <at> <choice> <since> <until> "<reason>" "<output>"
//
// Numbers have base 36; times are ms since 1970. What is 0, or empty, at the end of a line is left out.
const textVersion = "1"

var (
	phaseLetters = map[Phase]string{"": "n", PhaseMain: "m", PhaseOnFailure: "o", PhaseFinally: "f", PhaseEnded: "e"}
	stateLetters = map[State]string{
		Blocked: "b", Waiting: "w", Active: "a", State(Succeeded): "s", State(Failed): "f", State(Cancelled): "c",
		State(Skipped): "k", State(UpstreamFailed): "u",
	}
	phases = inverse(phaseLetters)
	states = inverse(stateLetters)
)

func inverse[K ~string](m map[K]string) map[string]K {
	out := make(map[string]K, len(m))
	for k, v := range m {
		out[v] = k
	}
	return out
}

// marks are the letters of what is true of a run.
func (r *Run) marks() map[string]*bool {
	return map[string]*bool{"c": &r.Cancelled, "l": &r.Late, "p": &r.Paused, "s": &r.Stopped}
}

// Encode returns the text of a run.
func (r Run) Encode() string {
	marks := ""
	for _, letter := range sortedKeys(r.marks()) {
		if *r.marks()[letter] {
			marks += letter
		}
	}
	if marks == "" {
		marks = "-"
	}
	b := make([]byte, 0, 64+24*len(r.Steps))
	b = appendNumbers(append(b, textVersion...), int64(r.Plans), int64(r.Attempt), keepZeros)
	b = append(b, " "+phaseLetters[r.Phase]+" "+marks...)
	b = appendNumbers(b, ms(r.Begun), ms(r.Closing))
	if len(r.Signals) > 0 {
		text, _ := json.Marshal(r.Signals) // their data was valid JSON
		b = strconv.AppendQuote(append(b, ' '), string(text))
	}
	b = append(b, '\n')
	for _, s := range r.Steps {
		b = append(s.append(b), '\n')
	}
	return string(b)
}

func (s StepRun) append(b []byte) []byte {
	b = append(b, stateLetters[s.State]...)
	if s.Generation > 0 {
		b = strconv.AppendInt(b, int64(s.Generation), 36)
	}
	switch {
	case s.State == Blocked:
		return b
	case s.State == Active && s.Stopping:
		b = appendNumbers(b, int64(s.Released), ms(s.At), 1)
	case s.State == Active:
		return appendNumbers(b, int64(s.Released), ms(s.At))
	case s.State == Waiting:
		return appendNumbers(b, int64(s.Released), ms(s.At), ms(s.Until))
	default:
		numbers := []int64{int64(s.Released), int64(s.Decided), ms(s.At), int64(s.Choice)}
		if s.Reason != "" {
			numbers = append(numbers, keepZeros)
		}
		b = appendNumbers(b, append(numbers, ms(s.Since), ms(s.Until))...)
	}
	if s.Reason == "" && s.Output == "" { // also of a step told to stop by a release that did not write why
		return b
	}
	if b = strconv.AppendQuote(append(b, ' '), s.Reason); s.Output == "" {
		return b
	}
	return strconv.AppendQuote(append(b, ' '), s.Output)
}

// keepZeros stands behind numbers that are written also if they are 0.
const keepZeros = -1

// appendNumbers appends numbers, each behind a space, without the zeros at the end.
func appendNumbers(b []byte, numbers ...int64) []byte {
	for len(numbers) > 0 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	for _, n := range numbers {
		if n != keepZeros {
			b = strconv.AppendInt(append(b, ' '), n, 36)
		}
	}
	return b
}

// ms returns a moment in ms since 1970; 0 for the zero time.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// IsOfLaterRelease reports whether the text of a run says that a later release has written it, in another form.
func IsOfLaterRelease(text string) bool {
	version, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(version)
	return err == nil && version != textVersion && n > 0
}

// DecodeUnknown reads the text of a run whose definition is not known.
func DecodeUnknown(text string) (Run, error) {
	return DecodeRun(text, max(strings.Count(text, "\n")-1, 0))
}

// DecodeRun reads the text of a run of a workflow with that many steps.
func DecodeRun(text string, steps int) (Run, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != steps+1 {
		return Run{}, fmt.Errorf("the text of the run has %d lines, not %d", len(lines), steps+1)
	}
	var r Run
	head, signals, hasSignals := strings.Cut(lines[0], ` "`)
	f := fieldsOf(head)
	if version := f.text(); version != textVersion {
		return Run{}, fmt.Errorf("the text of the run is of version %.20q, which this release cannot read", version)
	}
	r.Plans, r.Attempt = f.number(), f.number()
	r.Phase = phases[f.text()]
	marks := f.text()
	r.Begun, r.Closing = f.time(), f.time()
	for letter, is := range r.marks() {
		*is = strings.Contains(marks, letter)
	}
	if hasSignals {
		text, err := strconv.Unquote(`"` + signals)
		if err == nil {
			err = json.Unmarshal([]byte(text), &r.Signals)
		}
		if err != nil {
			return Run{}, fmt.Errorf("the text of the run has signals that cannot be read: %w", err)
		}
	}
	r.Steps = make([]StepRun, 0, steps)
	for i, text := range lines[1:] {
		s, err := decodeStep(text)
		if err != nil {
			return Run{}, fmt.Errorf("the text of the run has in line %d: %w", i+2, err)
		}
		r.Steps = append(r.Steps, s)
	}
	if got := r.Encode(); f.err == nil && got != strings.Join(lines, "\n")+"\n" {
		f.err = errors.New("another form than this release writes")
	}
	if f.err != nil {
		return Run{}, fmt.Errorf("the text of the run cannot be read: %w", f.err)
	}
	return r, nil
}

func decodeStep(text string) (s StepRun, _ error) {
	head, reason, quoted := strings.Cut(text, ` "`)
	f := fieldsOf(head)
	first := f.text()
	if first == "" {
		return s, errors.New("nothing")
	}
	state, known := states[first[:1]]
	if !known {
		return s, fmt.Errorf("no state: %.20q", first)
	}
	s.State = state
	if len(first) > 1 {
		generation := fields{rest: []string{first[1:]}}
		s.Generation, f.err = generation.number(), generation.err
	}
	switch state {
	case Blocked:
	case Active:
		s.Released, s.At, s.Stopping = f.number(), f.time(), f.number() == 1
	case Waiting:
		s.Released, s.At, s.Until = f.number(), f.time(), f.time()
		s.Since = s.At
	default:
		s.Released, s.Decided, s.At, s.Choice = f.number(), f.number(), f.time(), f.number()
		s.Since, s.Until = f.time(), f.time()
	}
	if quoted && f.err == nil {
		f.err = s.readTexts(`"` + reason)
	}
	return s, f.err
}

// readTexts reads the reason of a step, and its output.
func (s *StepRun) readTexts(quoted string) error {
	reason, err := strconv.QuotedPrefix(quoted)
	if err != nil {
		return err
	}
	if s.Reason, err = strconv.Unquote(reason); err != nil || len(reason) == len(quoted) {
		return err
	}
	s.Output, err = strconv.Unquote(strings.TrimPrefix(quoted[len(reason):], " "))
	return err
}

// fields reads the fields of a line. Those at its end can be left out.
type fields struct {
	rest []string
	err  error
}

func fieldsOf(line string) *fields { return &fields{rest: strings.Split(line, " ")} }

func (f *fields) text() string {
	if len(f.rest) == 0 {
		return ""
	}
	first := f.rest[0]
	f.rest = f.rest[1:]
	return first
}

func (f *fields) number() int {
	text := f.text()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 36, 63)
	if err != nil && f.err == nil {
		f.err = err
	}
	return int(n)
}

func (f *fields) time() time.Time {
	n := f.number()
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(n)).UTC()
}
