package web

import (
	"context"
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

const limitsPath = "/limits"

// oneLimit is what the page of a limit shows.
type oneLimit struct {
	limitRow
	Sentence template.HTML
	Fields   []formField // of the form that changes it
}

// Can reports whether the page has a form now.
func (l oneLimit) Can(what string) bool { return what != "resume" || l.Paused }

// Offers are the actions that the page of a limit offers.
func (l oneLimit) Offers() string {
	if l.Paused {
		return "resume"
	}
	return "pause"
}

// Seen is what the forms of the page say that their reader has seen: when the limit was changed last.
func (l oneLimit) Seen() string { return ms(l.At) }

// LimitRow is the limit as the list of limits has it.
func (l oneLimit) LimitRow() limitRow { return l.limitRow }

func readLimit(ctx context.Context, v *visit) (any, string, error) {
	name := v.param("name")
	found, err := v.site.Control.GetLimit(ctx, v.who, name)
	if err != nil {
		return nil, "", err
	}
	l := oneLimit{limitRow: limitRowOf(found)}
	l.Sentence, l.Fields = v.limitSentence(l.limitRow), v.limitFields(found.Rule)
	return l, name, nil
}

// limitSentence says how a limit is.
func (v *visit) limitSentence(l limitRow) template.HTML {
	switch {
	case l.State == limitPaused:
		return v.T("Paused: none of its tasks starts")
	case l.State == limitFull && l.IsWildcard:
		return v.T("Full for %s: tasks wait for a slot", v.FullNames(l))
	case l.State == limitFull && l.Waiting > 0:
		return v.T("Full: its tasks wait for a slot")
	case l.State == limitFull:
		return v.T("Full, and nothing waits")
	case l.Waiting > 0:
		return v.T("Some of its tasks wait")
	case l.State == limitUsed:
		return v.T("In use, and nothing waits")
	}
	return v.T("Not in use")
}

// limitFields are the fields of what a limit allows.
func (v *visit) limitFields(r control.LimitRule) []formField {
	per := ""
	if r.Per > 0 {
		per = task.FormatDuration(r.Per)
	}
	fields := []formField{
		{Name: "slots", Label: v.T("Slots"), Value: numberText(r.Slots), Hint: "5"},
		{Name: "rate", Label: v.T("Rate"), Value: numberText(r.Rate), Hint: "100"},
		{Name: "per", Label: v.T("Per 1s, 1m or 1h"), Value: per, Hint: "1m"},
		{Name: "burst", Label: v.T("Burst"), Value: numberText(r.Burst), Hint: "20"},
	}
	return v.filledIn(fields)
}

// filledIn are fields with what was typed into them, and what is wrong with it.
func (v *visit) filledIn(fields []formField) []formField {
	for i := range fields {
		f := &fields[i]
		v.label(f.Name, f.Label)
		f.Value, f.Wrong = v.Typed(f.Name, f.Value), v.Wrong(f.Name)
	}
	return fields
}

// newLimit is what the page shows that sets a new limit.
type newLimit struct{ Fields []formField }

func readLimitNew(_ context.Context, v *visit) (any, string, error) {
	data, title := bareLimitNew(v)
	return data, title, nil
}

// bareLimitNew is the form of a new limit, for which nothing of Redis is needed.
func bareLimitNew(v *visit) (any, string) {
	name := formField{
		Name: "name", Label: v.T("Name"), Value: v.query.Get("name"), Hint: "key:tenant-7", Required: true, Wide: true,
	}
	fields := append(v.filledIn([]formField{name}), v.limitFields(control.LimitRule{})...)
	notes := map[string]template.HTML{
		"slots": v.T("How many tasks may be queued or running at once. Empty: any number."),
		"rate":  v.T("How many may be handed over in that time. Empty: any number."),
		"per":   v.T("A second, a minute or an hour. A rate needs one of them."),
		"burst": v.T("How many may be handed over at once after a rest. Empty: as many as the rate."),
	}
	for i := range fields {
		fields[i].Note = notes[fields[i].Name]
	}
	return newLimit{fields}, string(v.T("New limit"))
}

// ruleOf is what a form says that a limit allows. Errors: CodeInvalid, for each field.
func (v *visit) ruleOf(form url.Values) (r control.LimitRule, err error) {
	var wrong problems
	number := func(field string) int {
		text := strings.TrimSpace(form.Get(field))
		if text == "" {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			wrong.add(v.invalid(field, v.T("must be a whole number of at least 1, or be left empty")))
		}
		return n
	}
	r.Slots, r.Rate, r.Burst = number("slots"), number("rate"), number("burst")
	r.Per, err = v.spanOf("per", strings.TrimSpace(form.Get("per")))
	wrong.add(err)
	return r, wrong.err()
}

// putLimit is the action of the form that sets a new limit. A limit that there is already, is changed on its page.
func putLimit(ctx context.Context, v *visit, form url.Values) (result, error) {
	rule, err := v.ruleOf(form)
	if err != nil {
		return result{}, err
	}
	name := strings.TrimSpace(form.Get("name"))
	put := control.LimitPut{Rule: rule, DryRun: true}
	change, err := v.site.Control.SetLimit(ctx, v.who, name, put)
	switch {
	case err != nil:
		return result{}, err
	case change.Changed && !change.Created: // else by this form, if it is sent again
		return result{}, v.invalid("name", v.T("there is a limit of this name: open its page to change it"))
	}
	put.DryRun = false
	_, err = v.site.Control.SetLimit(ctx, v.who, name, put)
	return result{path: string(v.Path("limits", name)), said: "limit-set"}, err
}

// setLimit is the action of the form that changes what a limit allows, unless somebody has changed the limit since.
func setLimit(ctx context.Context, v *visit, form url.Values) (result, error) {
	done, name := result{path: v.parent(), said: "limit-set"}, v.param("name")
	rule, err := v.ruleOf(form)
	if err != nil {
		return done, err
	}
	now, err := v.site.Control.GetLimit(ctx, v.who, name)
	if err == nil && now.Rule != rule {
		err = v.changedSince(task.CodeChanged, form, ms(now.At))
	}
	if err != nil {
		return done, err
	}
	_, err = v.site.Control.SetLimit(ctx, v.who, name, control.LimitPut{Rule: rule})
	return done, err
}

// pauseLimit is the action of the form that pauses a limit, or changes its pause, unless somebody has changed the limit
// since.
func pauseLimit(ctx context.Context, v *visit, form url.Values) (result, error) {
	done, name := result{path: v.parent(), said: "limit-paused"}, v.param("name")
	p := control.LimitPause{Note: strings.TrimSpace(form.Get("note"))}
	var err error
	if p.For, err = v.spanOf("for", strings.TrimSpace(form.Get("for"))); err != nil {
		return done, err
	}
	if text := strings.TrimSpace(form.Get("until")); text != "" {
		var isTime bool
		if p.Until, isTime = v.timeOf(text); !isTime {
			return done, v.invalid("until", v.T("must be a time such as 2026-01-02 15:04"))
		}
	}
	now, err := v.site.Control.GetLimit(ctx, v.who, name)
	seen := form.Get(seenField)
	switch {
	case err != nil:
		return done, err
	case seen == ms(now.At) || seen == "":
	case now.Paused && now.Note == p.Note && now.PausedBy == v.who.By(): // by this form, if it is sent again
		return done, nil
	case now.Paused:
		return done, v.pausedBefore(task.CodeChanged, pause{now.PausedBy, now.At, now.Note}, p.Note)
	default:
		return done, v.changedSince(task.CodeChanged, form, ms(now.At))
	}
	return done, v.site.Control.PauseLimit(ctx, v.who, name, p)
}

// resumeLimit is the action of the form that ends the pause of a limit, unless somebody has paused it anew. A limit
// that was created for its pause ends with it.
func resumeLimit(ctx context.Context, v *visit, form url.Values) (result, error) {
	done, name := result{path: v.parent(), said: "limit-resumed"}, v.param("name")
	now, err := v.site.Control.GetLimit(ctx, v.who, name)
	if err == nil && now.Paused {
		err = v.changedSince(task.CodeChanged, form, ms(now.At))
	}
	if err == nil {
		err = v.site.Control.ResumeLimit(ctx, v.who, name)
	}
	switch {
	case edge.CodeOf(err) == control.CodeLimitNotFound:
		return result{path: limitsPath, said: "limit-gone"}, nil
	case now.Ends:
		done.path = limitsPath
	}
	return done, err
}

// deleteLimit is the action of the form that lifts a limit, unless somebody has changed it since.
func deleteLimit(ctx context.Context, v *visit, form url.Values) (result, error) {
	name := v.param("name")
	now, err := v.site.Control.GetLimit(ctx, v.who, name)
	if err == nil {
		err = v.changedSince(task.CodeChanged, form, ms(now.At))
	}
	if err == nil {
		err = v.site.Control.DeleteLimit(ctx, v.who, name)
	}
	if edge.CodeOf(err) == control.CodeLimitNotFound {
		return result{path: limitsPath, said: "limit-gone"}, nil
	}
	return result{path: limitsPath, said: "limit-deleted"}, err
}
