package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/task"
)

const (
	// LimitUsesMost is how many keys, types, queues or namespaces are listed of a limit whose name ends with "*".
	LimitUsesMost = 20
	// LimitPauseLimit is the longest time that a pause of a limit can be given.
	LimitPauseLimit = 365 * 24 * time.Hour
)

// LimitRule says what a limit allows.
type LimitRule = limit.Rule

// LimitUse is how much of a limit is in use: by tasks that hold a slot, and by tasks that are due and wait.
type LimitUse struct {
	Name          string
	Held, Waiting int
}

// LimitInfo is a limit, and how much of it is in use.
type LimitInfo struct {
	LimitUse             // of all names that it applies to
	Rule       LimitRule // without its pause
	Paused     bool
	Until      time.Time // when the pause ends; zero: when somebody resumes the limit
	Note       string    // why it is paused
	PausedBy   string    // who paused it, "" if nobody knows
	By         string    // who set, paused or resumed it last, "" if nobody knows
	At         time.Time // when
	Names      int       // of a name that ends with "*": how many names are in use
	Uses       []LimitUse
	Holders    []task.Ref // of another name: up to LimitUsesMost of the tasks that hold its slots
	SetAs      string     // the limit that applies to this name, which has none of its own; "" if it has one
	IsWildcard bool       // its name ends with "*"
	Ends       bool       // it was created for its pause, and ends with it
}

// LimitPause says how long a limit is paused, and why.
type LimitPause struct {
	For   time.Duration // 0: until Until
	Until time.Time     // zero, with For 0: until somebody resumes the limit
	Note  string
}

// ListLimits returns the limits, from narrow to wide. Under redisx.LeavingOut, what cannot be read is left out. Errors:
// CodeInvalid while nodes live that do not know limits, CodeUnavailable.
func (c *Control) ListLimits(ctx context.Context, who Caller) ([]LimitInfo, error) {
	if _, err := c.begin(ctx, who, "listLimits"); err != nil {
		return nil, err
	}
	entries, now, err := c.readLimits(ctx)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	table := tableOf(entries)
	return c.limitInfos(ctx, entries, now, table, func(name string) bool { _, is := table.Which(name); return is })
}

// GetLimit returns a limit by its name. Errors: as ListLimits, and CodeLimitNotFound.
func (c *Control) GetLimit(ctx context.Context, who Caller, name string) (LimitInfo, error) {
	found, err := c.FindLimit(ctx, who, name)
	if err == nil && found.SetAs != "" {
		return LimitInfo{}, c.noLimit(ctx, name)
	}
	return found, err
}

// FindLimit returns a limit by its name. If a key, type, queue or namespace has none of its own, it returns the limit
// that applies to it, with SetAs, and how much of that it uses. Errors: those of GetLimit.
func (c *Control) FindLimit(ctx context.Context, who Caller, name string) (LimitInfo, error) {
	if _, err := c.begin(ctx, who, "getLimit"); err != nil {
		return LimitInfo{}, err
	}
	n, err := limit.ParseName(name)
	if err != nil {
		return LimitInfo{}, err
	}
	entries, now, err := c.readLimits(ctx)
	if err != nil {
		return LimitInfo{}, err
	}
	table := tableOf(entries)
	of, _ := table.Which(n.String())
	at := slices.IndexFunc(entries, func(e rules.Entry) bool { return e.Name == of })
	if at < 0 || n.IsWildcard() && n != of {
		return LimitInfo{}, limitNotFound(n, entries)
	}
	is := func(name string) bool { of, _ := table.Which(name); return of == n }
	if n != of {
		is = func(name string) bool { return name == n.String() }
	}
	infos, err := c.limitInfos(ctx, entries[at:at+1], now, table, is)
	if err != nil {
		return LimitInfo{}, err
	}
	info := infos[0]
	if n != of {
		info.Name, info.SetAs, info.IsWildcard, info.Names, info.Uses = n.String(), of.String(), false, 0, nil
	}
	if !info.IsWildcard && info.Held > 0 {
		info.Holders, err = c.store.Rules.Holders(ctx, info.Name, LimitUsesMost)
	}
	return info, err
}

// readLimits reads the limits, and the time of Redis. Errors: as ListLimits.
func (c *Control) readLimits(ctx context.Context) ([]rules.Entry, time.Time, error) {
	if err := c.checkLimits(); err != nil {
		return nil, time.Time{}, err
	}
	return c.store.Rules.All(ctx)
}

// checkLimits refuses limits while nodes live that would not follow them. Error: CodeInvalid.
func (c *Control) checkLimits() error {
	if !c.store.HasLimits() {
		return task.Errorf(task.CodeInvalid, "limits work only while all living nodes have this release, as earlier ones "+
			"do not follow them: upgrade or stop the nodes of earlier releases, see dtsctl node list")
	}
	return nil
}

// limitInfos returns what is known of limits. It counts the tasks of the names that wanted reports.
func (c *Control) limitInfos(
	ctx context.Context, entries []rules.Entry, now time.Time, table *limit.Table, wanted func(string) bool,
) ([]LimitInfo, error) {
	uses, more, err := c.store.Rules.Use(ctx, wanted)
	if err != nil {
		return nil, err
	}
	if more {
		redisx.PassOn(ctx, []string{fmt.Sprintf("the limits are in use in more than %d places, and what is beyond these was "+
			"not counted: ask for a single limit", rules.UsesMost)})
	}
	infos := make([]LimitInfo, len(entries))
	places := make(map[limit.Name]*LimitInfo, len(entries))
	for i, e := range entries {
		infos[i] = limitInfo(e, now)
		places[e.Name] = &infos[i]
	}
	for name, use := range uses {
		of, _ := table.Which(name)
		if info := places[of]; info != nil {
			info.add(LimitUse{name, use.Held, use.Waiting})
		}
	}
	for i := range infos {
		infos[i].cut()
	}
	return infos, nil
}

// limitInfo is a limit of which nothing is in use.
func limitInfo(e rules.Entry, now time.Time) LimitInfo {
	info := LimitInfo{
		LimitUse: LimitUse{Name: e.Name.String()}, Rule: e.Rule, By: e.By, At: e.At, IsWildcard: e.Name.IsWildcard(),
		Ends: e.Ends,
	}
	info.Rule.Paused = time.Time{}
	if info.Paused = e.Rule.Paused.After(now); info.Paused {
		info.Note, info.PausedBy = e.Note, e.Pauser
		if e.Rule.Paused.Before(limit.UntilResumed) {
			info.Until = e.Rule.Paused
		}
	}
	return info
}

func (i *LimitInfo) add(use LimitUse) {
	i.Held, i.Waiting = i.Held+use.Held, i.Waiting+use.Waiting
	if i.IsWildcard {
		i.Uses = append(i.Uses, use)
	}
}

// cut keeps the names of which most tasks wait.
func (i *LimitInfo) cut() {
	i.Names = len(i.Uses)
	slices.SortFunc(i.Uses, func(a, b LimitUse) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Held, a.Held), cmp.Compare(a.Name, b.Name))
	})
	i.Uses = i.Uses[:min(len(i.Uses), LimitUsesMost)]
}

// tableOf returns the limits in the form that knows which one applies to a key, type, queue or namespace.
func tableOf(entries []rules.Entry) *limit.Table {
	return limit.NewTable(rules.Of(entries))
}

// limitNotFound says that no limit has that name, and which name may be meant.
func limitNotFound(n limit.Name, entries []rules.Entry) error {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name.String()
	}
	hint := "see dtsctl limit list"
	if of, applies := tableOf(entries).Which(n.String()); applies {
		hint = fmt.Sprintf("the limit %q applies to it", of)
	} else if nearest := config.Nearest(n.String(), names); nearest != "" {
		hint = fmt.Sprintf("did you mean %q?", nearest)
	}
	return task.Errorf(CodeLimitNotFound, "no limit has the name %q; %s", n, hint)
}

// LimitPut says what a limit becomes.
type LimitPut struct {
	Rule   LimitRule // its pause does not count
	DryRun bool      // check, and say what would come of it, but write nothing
}

// errDryRun keeps a dry run from writing.
var errDryRun = errors.New("this is a dry run")

// LimitChange is what came of setting a limit.
type LimitChange struct {
	Created, Changed bool
	Removed          []string // what it allowed before and was not given again: "slots 5", "rate 100 per 1m", "burst 20"
}

// SetLimit sets what a limit allows, and creates the limit if there is none. It keeps a pause. A limit that allows that
// already stays as it is. Errors: CodeInvalid, CodeUnavailable.
func (c *Control) SetLimit(
	ctx context.Context, who Caller, name string, put LimitPut,
) (change LimitChange, _ error) {
	if _, err := c.begin(ctx, who, "setLimit"); err != nil {
		return change, err
	}
	rule := put.Rule
	rule.Paused = time.Time{}
	if err := cmp.Or(checkRuns(name), rule.Validate()); err != nil {
		return change, err
	}
	err := c.changeLimit(ctx, who, name, func(e rules.Entry, now time.Time) (rules.Entry, error) {
		before := e
		e.Rule, e.Ends = rule, false
		if before.Rule.Paused.After(now) {
			e.Rule.Paused = before.Rule.Paused
		} else {
			e.Note, e.Pauser = "", ""
		}
		change = LimitChange{
			Created: before.Rule == LimitRule{}, Changed: e.Rule != before.Rule || before.Ends,
			Removed: before.Rule.Removed(rule),
		}
		if put.DryRun {
			return e, errDryRun
		}
		return e, nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
		if change.Created {
			err = c.store.Rules.CheckRoom(ctx, name)
		}
	}
	return change, err
}

// checkRuns refuses limits that would be about runs of workflows, which have none. Error: CodeInvalid.
func checkRuns(name string) error {
	if n, err := limit.ParseName(name); err == nil && n == (limit.Name{Kind: limit.Type, Of: task.WorkflowType}) {
		return task.Invalid("name", "runs of workflows have no limits, and their steps have those of their own types: "+
			"name one of these types")
	}
	return nil
}

// PauseLimit lets no task of a limit be handed over for a time. If there is none of that name, it creates one that ends
// with the pause, as rules.Pause says. A second pause replaces the first. Errors: CodeInvalid, CodeUnavailable.
func (c *Control) PauseLimit(ctx context.Context, who Caller, name string, p LimitPause) error {
	if _, err := c.begin(ctx, who, "pauseLimit"); err != nil {
		return err
	}
	if err := checkNote(p.Note); err != nil {
		return err
	}
	n, err := limit.ParseName(name)
	if err := cmp.Or(err, checkRuns(name), c.checkLimits()); err != nil {
		return err
	}
	return c.store.Rules.Pause(ctx, n, who.By(), p.Note, p.end)
}

// end returns when a pause ends that begins now. Error: CodeInvalid.
func (p LimitPause) end(now time.Time) (time.Time, error) {
	switch {
	case p.For != 0 && !p.Until.IsZero():
		return now, task.Invalid("for", "is given beside until: give one of them")
	case p.For != 0 && (p.For < time.Second || p.For > LimitPauseLimit):
		return now, task.Invalid("for", "is %s: write 1s to %s, or leave it out", task.FormatDuration(p.For),
			task.FormatDuration(LimitPauseLimit))
	case p.For != 0:
		return now.Add(p.For).UTC().Truncate(time.Millisecond), nil
	case p.Until.IsZero():
		return limit.UntilResumed, nil
	case !p.Until.After(now) || p.Until.After(now.Add(LimitPauseLimit)):
		return now, task.Invalid("until", "is %s: write a time after now, %s, and at most a year ahead, or leave it out",
			p.Until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return p.Until.UTC().Truncate(time.Millisecond), nil
}

// ResumeLimit ends the pause of a limit. It deletes a limit that was made for its pause.
// Errors: CodeInvalid, CodeLimitNotFound, CodeUnavailable.
func (c *Control) ResumeLimit(ctx context.Context, who Caller, name string) error {
	if _, err := c.begin(ctx, who, "resumeLimit"); err != nil {
		return err
	}
	found := false
	err := c.changeLimit(ctx, who, name, func(e rules.Entry, _ time.Time) (rules.Entry, error) {
		found = e.Rule != LimitRule{}
		e.Rule.Paused, e.Note, e.Pauser = time.Time{}, "", ""
		if e.Ends {
			e.Rule = LimitRule{}
		}
		return e, nil
	})
	if err == nil && !found {
		return c.noLimit(ctx, name)
	}
	return err
}

// DeleteLimit lifts a limit. Errors: CodeInvalid, CodeLimitNotFound, CodeUnavailable.
func (c *Control) DeleteLimit(ctx context.Context, who Caller, name string) error {
	if _, err := c.begin(ctx, who, "deleteLimit"); err != nil {
		return err
	}
	n, err := limit.ParseName(name)
	if err := cmp.Or(err, c.checkLimits()); err != nil {
		return err
	}
	defer c.rules.forget()
	existed, err := c.store.Rules.Delete(ctx, n, who.By())
	if err == nil && !existed {
		return c.noLimit(ctx, name)
	}
	return err
}

// changeLimit changes a limit, as rules.Change does. Errors: those, and CodeInvalid for the name.
func (c *Control) changeLimit(
	ctx context.Context, who Caller, name string, decide func(rules.Entry, time.Time) (rules.Entry, error),
) error {
	n, err := limit.ParseName(name)
	if err := cmp.Or(err, c.checkLimits()); err != nil {
		return err
	}
	defer c.rules.forget()
	_, err = c.store.Rules.Change(ctx, n, who.By(), decide)
	return err
}

// noLimit says that no limit has that name, which can be read.
func (c *Control) noLimit(ctx context.Context, name string) error {
	n, err := limit.ParseName(name)
	if err != nil {
		return err
	}
	ctx, _ = redisx.LeavingOut(ctx)
	entries, _, err := c.store.Rules.All(ctx)
	if err != nil {
		return err
	}
	return limitNotFound(n, entries)
}
