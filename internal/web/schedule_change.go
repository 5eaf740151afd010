package web

import (
	"context"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/manifest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// scheduleChange is what the page shows that asks before it changes a schedule: what follows, by a dry run.
type scheduleChange struct {
	task.Ref
	Do      string // the last part of the path
	Title   template.HTML
	Follows []template.HTML // in sentences
	Wrong   string          // why it cannot be done now; "" if it can
	Button  template.HTML   // "" if there is nothing to do
	Red     bool            // it destroys something
	Hidden  []hiddenField
	Note    bool // it takes a note
	Range   *rangeForm
	Choices []choice
	Changes []manifest.Change
	Tasks   []control.DeletedTask
}

// Can reports whether it can be done now. Only then has the page its form.
func (c scheduleChange) Can(string) bool { return c.Button != "" }

// rangeForm is the form of a range of time.
type rangeForm struct {
	From, To, Pace string
	Created        time.Time // when the schedule was
}

// choice is one of several ways to do it.
type choice struct {
	Value   string
	Label   template.HTML
	Present bool
}

// asking is how a change of a schedule is asked for, by the last part of its path.
var asking = map[string]func(context.Context, *visit, schedule.Schedule) (scheduleChange, error){
	"trigger": askTrigger, "pause": askPause, "resume": askResume, "delete": askDelete,
	"rollback": askRollback, "backfill": askBackfill,
}

func readScheduleChange(ctx context.Context, v *visit) (any, string, error) {
	ask, known := asking[v.param("do")]
	if !known {
		return nil, "", echo.ErrNotFound
	}
	v.who = v.ofPath()
	s, err := v.site.Control.GetSchedule(ctx, v.who, v.param("id"))
	if err != nil {
		return nil, "", err
	}
	c, err := ask(ctx, v, s)
	if refusal := refusalOf(err); refusal != nil {
		c.Button, err = "", nil
		if refusal.Code == task.CodeInvalid {
			v.mark(refusal)
		} else {
			c.Wrong = refusal.Error()
		}
	}
	c.Ref, c.Do = s.Ref, v.param("do")
	return c, string(c.Title) + " · " + s.ID, err
}

func askTrigger(ctx context.Context, v *visit, s schedule.Schedule) (scheduleChange, error) {
	c := scheduleChange{Title: v.T("Run it now, beside its ticks"), Button: v.T("Trigger")}
	run, err := v.site.Control.PreviewTrigger(ctx, v.who, s.ID)
	if err != nil {
		return c, err
	}
	follows := v.T("A task begins as soon as a worker is free.")
	if !run.HasTask {
		follows = v.T("The run waits until the task before it has ended: its overlap policy is %s.", s.EffectiveOverlap())
	}
	c.Follows = append(c.Follows, follows)
	if r := run.Replaces; r.Tasks > 0 {
		c.Follows = append(c.Follows, v.T("It replaces %d tasks: they are cancelled, or asked to stop.", r.Tasks))
	}
	if r := run.Replaces; r.Ticks > 0 {
		c.Follows = append(c.Follows, v.T("%d ticks that wait for their turn get no task.", r.Ticks))
	}
	c.Follows = append(c.Follows, v.T("Its ticks stay as they are."))
	return c, nil
}

func askPause(_ context.Context, v *visit, s schedule.Schedule) (scheduleChange, error) {
	c := scheduleChange{Title: v.T("Pause"), Button: v.T("Pause"), Note: true}
	if !s.PausedAt.IsZero() {
		c.Button, c.Wrong = "", string(v.T("It is paused already."))
		return c, nil
	}
	c.Hidden = []hiddenField{{seenField, seenUnpaused}}
	c.Follows = []template.HTML{
		v.T("No tick runs until somebody resumes it. Tasks that run or wait go on."), escaped(s.Misfire.AfterPause()),
	}
	return c, nil
}

func askResume(_ context.Context, v *visit, s schedule.Schedule) (scheduleChange, error) {
	c := scheduleChange{Title: v.T("Resume"), Button: v.T("Resume")}
	if s.PausedAt.IsZero() {
		c.Button, c.Wrong = "", string(v.T("It is not paused."))
		return c, nil
	}
	c.Hidden = []hiddenField{{seenField, ms(s.PausedAt)}}
	c.Follows = []template.HTML{escaped(s.Misfire.AfterPause())}
	if s.PausedItself() {
		c.Follows = append(c.Follows, v.T("It counts failures from 0 again."))
	}
	s.PausedAt = time.Time{}
	if next, comes := s.NextTick(); comes && next.After(v.now) {
		c.Follows = append(c.Follows, v.T("Next tick: %s.", v.Time(next)))
	}
	return c, nil
}

func askDelete(ctx context.Context, v *visit, s schedule.Schedule) (scheduleChange, error) {
	c := scheduleChange{Title: v.T("Delete"), Red: true, Button: v.T("Delete the schedule")}
	chosen := deleteTasks(v.first("tasks"))
	c.Hidden = []hiddenField{{"tasks", string(chosen)}, {seenField, definitionSeen(s)}}
	c.Choices = []choice{
		{string(control.DeleteWaiting), v.T("Cancel what waits; what runs goes on"), chosen == control.DeleteWaiting},
		{string(control.DeleteAll), v.T("Stop what runs, too"), chosen == control.DeleteAll},
		{string(control.DeleteNone), v.T("Let all go on"), chosen == control.DeleteNone},
	}
	d, err := v.site.Control.PreviewDelete(ctx, v.who, s.ID, chosen)
	if err != nil {
		return c, err
	}
	c.Follows = []template.HTML{
		v.T("Its ledger and its %d revisions go with it: nobody can audit it afterwards.", s.Revision),
	}
	if d.Cancelled > 0 {
		c.Follows = append(c.Follows, v.T("%d tasks that do not run are cancelled.", d.Cancelled))
	}
	if d.Stopping > 0 {
		c.Follows = append(c.Follows, v.T("%d tasks that run are asked to stop.", d.Stopping))
	}
	if d.Left > 0 {
		c.Follows = append(c.Follows, v.T("%d tasks go on.", d.Left))
	}
	if d.Waiting > 0 {
		c.Follows = append(c.Follows, v.T("%d ticks that wait for their turn get no task.", d.Waiting))
	}
	if d.Cancelled+d.Stopping+d.Left == 0 {
		c.Follows = append(c.Follows, v.T("None of its tasks runs or waits."))
	}
	c.Tasks = d.Examples
	return c, nil
}

// deleteTasks is what a form says of the tasks of a deleted schedule.
func deleteTasks(text string) control.DeleteTasks {
	switch choice := control.DeleteTasks(text); choice {
	case control.DeleteAll, control.DeleteNone:
		return choice
	}
	return control.DeleteWaiting
}

func askRollback(ctx context.Context, v *visit, s schedule.Schedule) (scheduleChange, error) {
	revision, _ := strconv.Atoi(v.first("revision"))
	text := v.T("Roll back to revision %d", revision)
	c := scheduleChange{Title: text, Button: text}
	c.Hidden = []hiddenField{{"revision", itoa(revision)}, {"if_match", itoa(s.Revision)}}
	put, err := v.site.Control.PreviewRollback(ctx, v.who, s.ID, revision, s.Revision)
	if err != nil {
		return c, err
	}
	if !put.Changed {
		c.Button, c.Wrong = "", string(v.T("Revision %d says the same as the present one.", revision))
		return c, nil
	}
	c.Follows = []template.HTML{
		v.T("Its definition becomes revision %d.", put.Schedule.Revision),
		v.T("Ticks that are due until then follow revision %d.", s.Revision),
	}
	if next, comes := put.Schedule.NextTick(); comes && next.After(v.now) {
		c.Follows = append(c.Follows, v.T("Next tick: %s.", v.Time(next)))
	}
	c.Changes, err = manifest.Differences(s.Definition, put.Schedule.Definition)
	return c, err
}

// How far apart the tasks of a backfill are due.
const (
	backfillPace     = time.Second // the default
	backfillPaceMost = 24 * time.Hour
)

func askBackfill(ctx context.Context, v *visit, s schedule.Schedule) (scheduleChange, error) {
	c := scheduleChange{Title: v.T("Run ticks of the past that did not run")}
	c.Range = &rangeForm{From: v.first("from"), To: v.first("to"), Pace: v.first("pace"), Created: s.CreatedAt}
	v.label("from", v.T("From"))
	v.label("to", v.T("To"))
	v.label("pace", v.T("One each"))
	if c.Range.From == "" {
		return c, nil
	}
	r, err := v.backfillRange(v.first, s)
	if err != nil {
		return c, err
	}
	b, err := v.site.Control.PreviewBackfill(ctx, v.who, s.ID, r)
	if err != nil {
		return c, err
	}
	if n := len(b.Entries); n > 0 {
		c.Button = v.T("Create %d tasks", n)
		c.Follows = append(c.Follows, v.T("It would create %d tasks, for ticks from %s to %s. The last one is due %s.",
			n, v.Stamp(b.Entries[0].Tick), v.Stamp(b.Entries[n-1].Tick), v.Time(b.LastDue)))
		c.Follows = append(c.Follows, v.earlierTicks(b, s)...)
	} else {
		c.Follows = append(c.Follows, v.T("No tick of this time lacks a task."))
	}
	if n := len(b.Left); n > 0 {
		c.Follows = append(c.Follows, v.T("%d ticks have run, or will: they are left as they are.", n))
	}
	c.Follows = append(c.Follows, v.T("Tasks that failed are not run again by this: retry them."))
	c.Hidden = []hiddenField{
		{"from", r.From.Format(time.RFC3339Nano)}, {"to", r.Until.Format(time.RFC3339Nano)}, {"pace", r.Pace.String()},
	}
	return c, nil
}

// earlierTicks says of a backfill how many of its ticks are from before the schedule was created; nothing for none.
func (v *visit) earlierTicks(b control.Backfilled, s schedule.Schedule) []template.HTML {
	n := 0
	for _, e := range b.Entries {
		if e.Tick.Before(s.CreatedAt) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []template.HTML{v.T("%d of them are from before the schedule was created, by its first definition.", n)}
}

// backfillRange is the range that a form names. An end that is left out is the newest tick that is decided. Error:
// CodeInvalid, with the field.
func (v *visit) backfillRange(
	typed func(field string) string, s schedule.Schedule,
) (r control.BackfillRange, err error) {
	if r.From, err = v.readTime("from", typed("from")); err != nil {
		return r, err
	}
	if r.Until, err = v.readTime("to", typed("to")); err != nil {
		return r, err
	}
	if r.Until.IsZero() {
		r.Until = s.Cursor
	}
	r.Pace = backfillPace
	if text := strings.TrimSpace(typed("pace")); text != "" {
		r.Pace, err = time.ParseDuration(text)
		if err != nil || r.Pace < 0 || r.Pace > backfillPaceMost || r.Pace%time.Millisecond != 0 {
			return r, v.invalid("pace", v.T("give a duration of up to %s, as in 30s", v.Span(backfillPaceMost)))
		}
	}
	return r, nil
}

// ofSchedule is a result on the page of the schedule in the path.
func (v *visit) ofSchedule(said string, n int) result {
	return result{path: string(v.Path("schedules", v.param("namespace"), v.param("id"))), said: said, n: n}
}

func triggerSchedule(ctx context.Context, v *visit, _ url.Values) (result, error) {
	run, err := v.site.Control.TriggerSchedule(ctx, v.ofPath(), v.param("id"))
	if err != nil || !run.HasTask {
		return v.ofSchedule("waits", 0), err
	}
	return result{path: string(v.Path("tasks", v.param("namespace"), run.TaskID(v.param("id")))), said: "triggered"}, nil
}

// seenUnpaused is what the form that pauses a schedule says that its reader has seen.
const seenUnpaused = "unpaused"

// pauseSchedule pauses a schedule. If another caller has paused it since its page was read, it refuses: the name and
// the note of that caller stay.
func pauseSchedule(ctx context.Context, v *visit, form url.Values) (result, error) {
	note := strings.TrimSpace(form.Get("note"))
	s, err := v.site.Control.GetSchedule(ctx, v.ofPath(), v.param("id"))
	isOurs := s.PauseNote == note && s.PausedBy == v.who.By() // by this form, if it is sent again
	if err == nil && !s.PausedAt.IsZero() && form.Get(seenField) == seenUnpaused && !isOurs {
		err := v.pausedBefore(schedule.CodeChanged, pause{s.PausedBy, s.PausedAt, s.PauseNote}, note)
		v.told += " " + v.T("See %s.", linkTo(v.Path("schedules", s.Namespace, s.ID), code(s.ID)))
		return result{}, err
	}
	_, err = v.site.Control.PauseSchedule(ctx, v.ofPath(), v.param("id"), note)
	return v.ofSchedule("paused", 0), err
}

// pause is who has paused something, when, and why, as far as that is known.
type pause struct {
	by   string
	at   time.Time
	note string
}

// pausedBefore is the refusal to pause what somebody has paused since its page was read. It has the note that was
// typed, which is not kept.
func (v *visit) pausedBefore(code task.Code, p pause, typed string) error {
	said := v.T("It is paused already.")
	switch {
	case p.at.IsZero(): // it is not known
	case p.by == "":
		said = v.T("It was paused at %s.", v.Moment(p.at))
	default:
		said = v.T("%s paused it at %s.", isolated(v.By(p.by)), v.Moment(p.at))
	}
	if p.note != "" {
		said += " " + v.T("The note is: %s", bdi(p.note))
	}
	said += "<br>" + v.T("It stays so.")
	if typed != "" {
		said += " " + v.T("Your note is not kept: %s", bdi(typed))
	}
	v.heading, v.told = v.T("Paused already."), said
	return task.Errorf(code, "%s", textOfHTML(said))
}

// resumeSchedule resumes a schedule, unless somebody has paused it anew.
func resumeSchedule(ctx context.Context, v *visit, form url.Values) (result, error) {
	s, err := v.site.Control.GetSchedule(ctx, v.ofPath(), v.param("id"))
	if err == nil && !s.PausedAt.IsZero() {
		if err = v.changedSince(schedule.CodeChanged, form, ms(s.PausedAt)); err != nil {
			return result{}, err
		}
	}
	_, err = v.site.Control.ResumeSchedule(ctx, v.ofPath(), v.param("id"))
	return v.ofSchedule("resumed", 0), err
}

// definitionSeen tells a schedule from another one that is created later with its id, and its revisions.
func definitionSeen(s schedule.Schedule) string { return ms(s.CreatedAt) + " " + itoa(s.Revision) }

// deleteSchedule also succeeds for a schedule that is gone, as for a form that is sent twice.
func deleteSchedule(ctx context.Context, v *visit, form url.Values) (result, error) {
	s, err := v.site.Control.GetSchedule(ctx, v.ofPath(), v.param("id"))
	if err == nil { // else it is gone, or nobody can read it
		if err = v.changedSince(schedule.CodeChanged, form, definitionSeen(s)); err != nil {
			return result{}, err
		}
	}
	_, err = v.site.Control.DeleteSchedule(ctx, v.ofPath(), v.param("id"), deleteTasks(form.Get("tasks")))
	if edge.CodeOf(err) == schedule.CodeNotFound {
		return result{path: "/schedules", said: "gone"}, nil
	}
	return result{path: "/schedules", said: "deleted"}, err
}

func rollBackSchedule(ctx context.Context, v *visit, form url.Values) (result, error) {
	revision, _ := strconv.Atoi(form.Get("revision"))
	match, _ := strconv.Atoi(form.Get("if_match"))
	_, err := v.site.Control.RollbackSchedule(ctx, v.ofPath(), v.param("id"), revision, match)
	if edge.CodeOf(err) == schedule.CodeChanged { // by this form, if it is sent twice
		put, failed := v.site.Control.PreviewRollback(ctx, v.ofPath(), v.param("id"), revision, 0)
		if failed == nil && !put.Changed {
			err = nil
		}
	}
	return v.ofSchedule("rolledback", revision), err
}

func backfillSchedule(ctx context.Context, v *visit, form url.Values) (result, error) {
	r, err := v.backfillRange(form.Get, schedule.Schedule{})
	if err != nil {
		return result{}, err
	}
	b, err := v.site.Control.BackfillSchedule(ctx, v.ofPath(), v.param("id"), r)
	return v.ofSchedule("backfilled", len(b.Entries)), err
}

// Fate is what becomes of a task of a schedule that is deleted.
func (v *visit) Fate(t control.DeletedTask) string {
	switch t.Fate {
	case control.TaskCancelled:
		return string(v.T("is cancelled"))
	case control.TaskStopping:
		return string(v.T("is asked to stop"))
	}
	return string(v.T("goes on"))
}
