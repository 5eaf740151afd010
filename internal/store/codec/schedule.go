package codec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// scheduleRecord is the stored definition of a schedule without its task, which EncodeDefinition writes. Fields that are
// left out have their default; times and durations are in ms. Equal definitions are equal byte for byte.
type scheduleRecord struct {
	Rules          []ruleRecord      `json:"rules"`
	Exclude        []string          `json:"exclude,omitempty"`
	Timezone       string            `json:"timezone,omitempty"`
	StartAt        int64             `json:"start,omitempty"`
	EndAt          int64             `json:"end,omitempty"`
	Jitter         int64             `json:"jitter,omitempty"`
	MaxRuns        int               `json:"max_runs,omitempty"`
	Misfire        *misfireRecord    `json:"misfire,omitempty"`
	Overlap        string            `json:"overlap,omitempty"`
	PauseOnFailure int               `json:"pause_on_failure,omitempty"`
	Owner          string            `json:"owner,omitempty"`
	Description    string            `json:"description,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
}

type ruleRecord struct {
	Cron  string `json:"cron,omitempty"`
	Every int64  `json:"every,omitempty"`
}

type misfireRecord struct {
	Policy string `json:"policy,omitempty"`
	Window int64  `json:"window,omitempty"`
	Max    int    `json:"max,omitempty"`
}

// EncodeSchedule writes a definition as Redis holds it: def is the schedule without its task, as one line of JSON; taskDef
// is the definition of its task, as EncodeDefinition writes it. Error: d holds something that JSON cannot.
func EncodeSchedule(d schedule.Definition) (def, taskDef string, _ error) {
	r := scheduleRecord{
		Exclude: d.Exclude, Timezone: d.Timezone, StartAt: toMS(d.StartAt), EndAt: toMS(d.EndAt), Jitter: d.Jitter.Milliseconds(),
		MaxRuns: d.MaxRuns, Overlap: string(d.Overlap), PauseOnFailure: d.PauseOnFailure,
		Owner: d.Owner, Description: d.Description, Labels: d.Labels,
	}
	for _, rule := range d.Rules {
		r.Rules = append(r.Rules, ruleRecord{rule.Cron, rule.Every.Milliseconds()})
	}
	if m := d.Misfire; m != (schedule.Misfire{}) {
		r.Misfire = &misfireRecord{string(m.Policy), m.Window.Milliseconds(), m.Max}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return "", "", fmt.Errorf("encoding schedule %s: %w", d.Ref, err)
	}
	taskDef, err = EncodeDefinition(d.Task)
	return string(line), taskDef, err
}

// DecodeScheduleDefinition reads what EncodeSchedule wrote. If taskDef is "", the result has no task, which is enough to
// compute times. Error: def or taskDef is not JSON of the stored form.
func DecodeScheduleDefinition(ref task.Ref, def, taskDef string) (schedule.Definition, error) {
	var r scheduleRecord
	if err := json.Unmarshal([]byte(def), &r); err != nil {
		return schedule.Definition{}, fmt.Errorf("schedule %s: its definition cannot be read: %w", ref, err)
	}
	d := schedule.Definition{
		Ref: ref,
		Spec: schedule.Spec{
			Exclude: r.Exclude, Timezone: r.Timezone, StartAt: FromMS(r.StartAt), EndAt: FromMS(r.EndAt), Jitter: ms(r.Jitter),
		},
		MaxRuns: r.MaxRuns, Overlap: schedule.Overlap(r.Overlap), PauseOnFailure: r.PauseOnFailure,
		Owner: r.Owner, Description: r.Description, Labels: r.Labels,
	}
	for _, rule := range r.Rules {
		d.Rules = append(d.Rules, schedule.Rule{Cron: rule.Cron, Every: ms(rule.Every)})
	}
	if m := r.Misfire; m != nil {
		d.Misfire = schedule.Misfire{Policy: schedule.MisfirePolicy(m.Policy), Window: ms(m.Window), Max: m.Max}
	}
	if taskDef == "" {
		return d, nil
	}
	var err error
	d.Task, err = DecodeDefinition(task.Ref{}, taskDef)
	return d, err
}

// scheduleNumbers are the numbers that a schedule has from the start, and those that it may have.
var scheduleNumbers, laterNumbers = []string{"revision", "created", "from", "cursor"}, []string{"runs", "paused", "ended"}

// checkNumbers returns an error if a number of a schedule's hash is none, or if one is missing.
func checkNumbers(ref task.Ref, h map[string]string) error {
	for _, name := range scheduleNumbers {
		if n, err := strconv.ParseInt(h[name], 10, 64); err != nil || strconv.FormatInt(n, 10) != h[name] {
			return fmt.Errorf("schedule %s: its field %s cannot be read: %q", ref, name, task.CutMiddle(h[name], damageLimit))
		}
	}
	for _, name := range laterNumbers {
		if _, err := strconv.ParseInt(h[name], 10, 64); err != nil && h[name] != "" {
			return fmt.Errorf("schedule %s: its field %s cannot be read: %q", ref, name, task.CutMiddle(h[name], damageLimit))
		}
	}
	return nil
}

// ScheduleFields are the fields that DecodeSchedule reads.
var ScheduleFields = []string{
	"def", "task", "revision", "created", "from", "cursor", "runs", "failures", "paused", "ended", "known", "note", "rest", "by", "paused_by",
}

// DecodeSchedule reads a schedule from its hash, without its Track. The counts of live tasks and waiting ticks are not in the hash; they are 0
// in the result. Error: CodeUnreadable, for the definition or a number.
func DecodeSchedule(ref task.Ref, h map[string]string) (schedule.Schedule, error) {
	d, err := DecodeScheduleDefinition(ref, h["def"], h["task"])
	if err == nil {
		err = checkNumbers(ref, h)
	}
	if err != nil {
		return schedule.Schedule{}, &task.Error{Code: task.CodeUnreadable, Message: err.Error()}
	}
	s := schedule.Schedule{
		Definition: d, Revision: int(Number(h["revision"])), PauseNote: h["note"], LastPause: DecodeSpan(h["rest"]),
		By: byOf(h["by"], h["revision"]), PausedBy: byOf(h["paused_by"], h["paused"]),
		CreatedAt: FromMS(Number(h["created"])), UpdatedAt: FromMS(Number(h["from"])), Cursor: FromMS(Number(h["cursor"])),
		PausedAt: FromMS(Number(h["paused"])), EndedAt: FromMS(Number(h["ended"])), ForgottenUntil: FromMS(Number(h["known"])),
		Runs: int(Number(h["runs"])), Failures: int(Number(h["failures"])),
	}
	return s, nil
}

// byOf reads who made a revision, or a pause, from "<its number, or its time in ms> <who>"; "" if nobody knows. A release
// that does not know the field leaves it as it was, so it may be of an earlier one.
func byOf(field, of string) string {
	which, by, _ := strings.Cut(field, " ")
	if which != of {
		return ""
	}
	return by
}

// DecodeSpan reads "<from ms> <until ms>", both since 1970; "" is the zero span.
func DecodeSpan(s string) schedule.Span {
	from, until, _ := strings.Cut(s, " ")
	return schedule.Span{From: FromMS(Number(from)), Until: FromMS(Number(until))}
}

// DecodeHeld reads "<ms> <queue>": when ticks were held back last, and for which queue that was full; "" for none.
func DecodeHeld(s string) (until time.Time, queue string) {
	ms, queue, _ := strings.Cut(s, " ")
	return FromMS(Number(ms)), queue
}

// revisionRecord is an entry of a schedule's history, as put_schedule.lua writes it. From and Until are ms since 1970, in
// decimal.
type revisionRecord struct {
	Revision string `json:"revision"`
	From     string `json:"from"`
	Until    string `json:"until"`
	Def      string `json:"def"`
	Task     string `json:"task"`
	By       string `json:"by"`
}

// DecodeRevision reads an entry of a schedule's history. Error: the entry, or a definition in it, cannot be read.
func DecodeRevision(ref task.Ref, entry string) (schedule.Revision, error) {
	var r revisionRecord
	if err := json.Unmarshal([]byte(entry), &r); err != nil {
		return schedule.Revision{}, fmt.Errorf("schedule %s: its history cannot be read: %w", ref, err)
	}
	d, err := DecodeScheduleDefinition(ref, r.Def, r.Task)
	if err == nil && (Number(r.Revision) < 1 || Number(r.From) == 0) {
		err = fmt.Errorf("schedule %s: a revision of its history has no number, or no time", ref)
	}
	return schedule.Revision{
		Number: int(Number(r.Revision)), Definition: d, By: byOf(r.By, r.Revision),
		Span: schedule.Span{From: FromMS(Number(r.From)), Until: FromMS(Number(r.Until))},
	}, err
}

// toMS is the time in ms since 1970; the zero time is 0.
func toMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
