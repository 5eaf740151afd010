package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dts-sched/dts/internal/handover"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/rules"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

func (w *world) limit(name string) LimitInfo {
	w.t.Helper()
	info, err := w.GetLimit(w.ctx, me, name)
	testkit.Must(w.t, err)
	return info
}

func TestSetLimit_KeepsThePause(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	testkit.Must(t, w.setLimit(me, "key:*", LimitRule{Slots: 5}))
	bob := Caller{Namespace: "default", Name: "bob"}
	first := w.limit("key:*")
	if first.Paused || first.Rule != (LimitRule{Slots: 5}) || first.At.IsZero() || !first.IsWildcard {
		t.Errorf("%+v", first)
	}
	testkit.Must(t, w.PauseLimit(w.ctx, bob, "key:*", LimitPause{For: time.Hour, Note: "the disk"}))
	rate := LimitRule{Rate: 100, Per: time.Minute, Burst: 7}
	testkit.Must(t, w.setLimit(Caller{Namespace: "default", Name: "ann"}, "key:*", rate))
	got := w.limit("key:*")
	named := strings.HasPrefix(got.By, "ann") && strings.HasPrefix(got.PausedBy, "bob")
	if got.Rule != rate || !got.Paused || got.Note != "the disk" || !named {
		t.Errorf("%+v", got)
	}
	if left := got.Until.Sub(w.now()); left > time.Hour || left < time.Hour-testkit.Limit {
		t.Errorf("the pause lasts %s", left)
	}
	testkit.Must(t, w.ResumeLimit(w.ctx, me, "key:*"))
	if got := w.limit("key:*"); got.Rule != rate || got.Paused || got.Note != "" || !got.Until.IsZero() {
		t.Errorf("%+v", got)
	}
}

func TestPauseLimit_CreatesWhatResumeDeletes(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	testkit.Must(t, w.PauseLimit(w.ctx, me, "all", LimitPause{}))
	if got := w.limit("all"); !got.Paused || !got.Until.IsZero() || got.Rule != (LimitRule{}) {
		t.Errorf("%+v", got)
	}
	testkit.Must(t, w.ResumeLimit(w.ctx, me, "all"))
	for name, err := range map[string]error{
		"resume": w.ResumeLimit(w.ctx, me, "all"), "delete": w.DeleteLimit(w.ctx, me, "all"),
	} {
		if task.CodeOf(err) != CodeLimitNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was paused until a time is not paused afterwards, and the next change forgets the pause.
func TestListLimits_ForgetsAPauseThatIsOver(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	_, err := w.store.Rules.Set(w.ctx, rules.Entry{
		Name: limit.Name{Kind: limit.All}, Rule: limit.Rule{Slots: 1, Paused: w.now().Add(-time.Second)}, Note: "over",
	})
	testkit.Must(t, err)
	if got := w.limit("all"); got.Paused || got.Note != "" || !got.Until.IsZero() {
		t.Errorf("%+v", got)
	}
	testkit.Must(t, w.setLimit(me, "all", LimitRule{Slots: 2}))
	if got, _, err := w.store.Rules.All(w.ctx); err != nil || !got[0].Rule.Paused.IsZero() || got[0].Note != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLimits_NameWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	for field, err := range map[string]error{
		"name":  w.setLimit(me, "tenant-7", LimitRule{Slots: 1}),
		"slots": w.setLimit(me, "all", LimitRule{}),
		"per":   w.setLimit(me, "all", LimitRule{Rate: 1}),
		"until": w.PauseLimit(w.ctx, me, "all", LimitPause{Until: w.now()}),
		"for":   w.PauseLimit(w.ctx, me, "all", LimitPause{For: time.Hour, Until: w.now().Add(time.Hour)}),
		"note":  w.PauseLimit(w.ctx, me, "all", LimitPause{Note: "two\nlines"}),
	} {
		var invalid *task.Error
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := w.PauseLimit(w.ctx, me, "all", LimitPause{For: time.Millisecond}); task.CodeOf(err) != task.CodeInvalid {
		t.Errorf("a short pause: %v", err)
	}
	if list, err := w.ListLimits(w.ctx, me); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestGetLimit_SaysWhichNameIsMeant(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	for _, name := range []string{"key:tenant-7", "queue:m*"} {
		testkit.Must(t, w.setLimit(me, name, LimitRule{Slots: 1}))
	}
	for name, want := range map[string]string{
		"key:tenant7": `did you mean "key:tenant-7"?`, "queue:mails": `the limit "queue:m*" applies to it`,
		"all": "see dtsctl limit list",
	} {
		_, err := w.GetLimit(w.ctx, me, name)
		if task.CodeOf(err) != CodeLimitNotFound || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each task counts under the limit whose name is the longest one that matches.
func TestListLimits_CountsTasksOfItsNames(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	table := limit.Rules{}
	for _, name := range []string{"key:*", "key:big", "key:t-*", "all"} {
		testkit.Must(t, w.setLimit(me, name, LimitRule{Slots: 2}))
		n, err := limit.ParseName(name)
		testkit.Must(t, err)
		table[n] = limit.Rule{Slots: 2}
	}
	var defs []task.Definition
	add := func(key string, n int) {
		for i := range n {
			defs = append(defs, task.Definition{Ref: task.Ref{ID: fmt.Sprint(key, "-", i)}, Type: "http", LimitKey: key})
		}
	}
	add("big", 3)
	add("t-1", 2)
	for i := range LimitUsesMost + 1 {
		add(fmt.Sprint("k", i), 1)
	}
	w.submit(defs)
	for p := range w.store.Partitions.Count() {
		grant := handover.Grant{Default: 1000, Limits: limit.NewTable(table)}
		for _, name := range []string{"key:t-1", "all"} {
			grant.Slots = append(grant.Slots, limit.Grant{Limit: name, Count: 2, Tokens: -1})
		}
		_, err := w.store.Partitions.At(p).Lead(fence).Claim(w.ctx, 1000, grant, time.Minute)
		testkit.Must(t, err)
	}
	list, err := w.ListLimits(w.ctx, me)
	testkit.Must(t, err)
	want := []LimitInfo{
		{LimitUse: LimitUse{"key:*", 0, LimitUsesMost + 1}, Names: LimitUsesMost + 1, IsWildcard: true},
		{LimitUse: LimitUse{"key:big", 0, 3}},
		{LimitUse: LimitUse{"key:t-*", 2, 0}, Names: 1, Uses: []LimitUse{{"key:t-1", 2, 0}}, IsWildcard: true},
		{LimitUse: LimitUse{"all", 2, LimitUsesMost + 4}},
	}
	if len(list) > 0 && len(list[0].Uses) != LimitUsesMost {
		t.Errorf("%d names are listed", len(list[0].Uses))
	}
	for i, info := range list {
		got, err := w.GetLimit(w.ctx, me, info.Name)
		if of := map[string]int{"all": 2}[info.Name]; len(got.Holders) != of {
			t.Errorf("%s is held by %v, want %d tasks", info.Name, got.Holders, of)
		}
		got.Holders = nil
		if err != nil || !reflect.DeepEqual(got, info) {
			t.Errorf("%+v, %v, listed as %+v", got, err, info)
		}
		if info.Name == "key:*" {
			list[i].Uses = nil
		}
	}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(LimitInfo{}, "Rule", "At")); diff != "" {
		t.Error(diff)
	}
}

func TestListLimits_SaysWhatItHasNotCounted(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	testkit.Must(t, w.setLimit(me, "key:*", LimitRule{Slots: 2}))
	caps := make(map[string]string)
	for i := range rules.UsesMost + 1 {
		caps[fmt.Sprint("key:", i)] = "1 1 0"
	}
	testkit.Must(t, w.db.HSet(w.ctx, "dts:{0}:caps", caps).Err())
	ctx, left := redisx.LeavingOut(w.ctx)
	_, err := w.ListLimits(ctx, me)
	if texts := left.Texts(); err != nil || len(texts) != 1 || !strings.Contains(texts[0], "not counted") {
		t.Errorf("%q, %v", texts, err)
	}
}

// Nodes of earlier releases do not follow limits.
func TestLimits_WaitForTheLayout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, listed := w.ListLimits(w.ctx, me)
	_, got := w.GetLimit(w.ctx, me, "all")
	for name, err := range map[string]error{
		"list": listed, "get": got, "set": w.setLimit(me, "all", LimitRule{Slots: 1}),
		"pause": w.PauseLimit(w.ctx, me, "all", LimitPause{}), "resume": w.ResumeLimit(w.ctx, me, "all"),
		"delete": w.DeleteLimit(w.ctx, me, "all"),
	} {
		if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), "earlier release") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A name without a limit of its own has the one that applies to it.
func TestFindLimit_ShowsWhatAppliesToAName(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	testkit.Must(t, w.setLimit(me, "key:*", LimitRule{Slots: 2}))
	testkit.Must(t, w.setLimit(me, "key:own", LimitRule{Slots: 9}))
	var defs []task.Definition
	for i, key := range []string{"t1", "t1", "t2", "t2", "t2"} {
		defs = append(defs, task.Definition{
			Ref: task.Ref{ID: fmt.Sprint("a", i)}, Type: "http", LimitKey: key, Cost: 1 + i/4,
		})
	}
	w.submit(defs)
	for p := range w.store.Partitions.Count() {
		grant := handover.Grant{Default: 1000, Limits: limit.NewTable(limit.Rules{{Kind: limit.Key, Of: "*"}: {Slots: 2}})}
		for _, name := range []string{"key:t1", "key:t2"} {
			grant.Slots = append(grant.Slots, limit.Grant{Limit: name, Count: 100, Tokens: -1})
		}
		_, err := w.store.Partitions.At(p).Lead(fence).Claim(w.ctx, 1000, grant, time.Minute)
		testkit.Must(t, err)
	}
	got, err := w.FindLimit(w.ctx, me, "key:t2")
	testkit.Must(t, err)
	want := LimitInfo{LimitUse: LimitUse{"key:t2", 4, 0}, Rule: LimitRule{Slots: 2}, SetAs: "key:*", Holders: []task.Ref{
		{Namespace: "default", ID: "a2"}, {Namespace: "default", ID: "a3"}, {Namespace: "default", ID: "a4"},
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(LimitInfo{}, "At")); diff != "" {
		t.Error(diff)
	}
	for name, setAs := range map[string]string{"key:own": "", "key:*": "", "key:nobody": "key:*"} {
		if got, err := w.FindLimit(w.ctx, me, name); err != nil || got.SetAs != setAs || got.Name != name {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, name := range []string{"key:t*", "type:http"} {
		if got, err := w.FindLimit(w.ctx, me, name); task.CodeOf(err) != CodeLimitNotFound {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := w.GetLimit(w.ctx, me, "key:t2"); task.CodeOf(err) != CodeLimitNotFound {
		t.Errorf("what is to be changed must be there: %v", err)
	}
}

func TestSetLimit_SaysWhatItRemoves(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	all := LimitRule{Slots: 5, Rate: 100, Per: time.Minute, Burst: 20}
	for _, c := range []struct {
		rule LimitRule
		want string
	}{
		{LimitRule{Slots: 5}, "[rate 100 per 1m burst 20]"},
		{LimitRule{Rate: 7, Per: time.Hour}, "[slots 5 burst 20]"},
		{LimitRule{Slots: 1, Rate: 1, Per: time.Second, Burst: 1}, "[]"},
	} {
		testkit.Must(t, w.setLimit(me, "all", all))
		for _, dryRun := range []bool{true, false} {
			got, err := w.SetLimit(w.ctx, me, "all", LimitPut{c.rule, dryRun})
			if err != nil || fmt.Sprint(got.Removed) != c.want {
				t.Errorf("%+v: %v, %v; want %s", c.rule, got.Removed, err, c.want)
			}
		}
	}
}

// What would have no effect is refused, and a dry run knows how many limits there may be.
func TestSetLimit_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	_, set := w.SetLimit(w.ctx, me, "type:workflow", LimitPut{Rule: LimitRule{Slots: 1}})
	paused := w.PauseLimit(w.ctx, me, "type:workflow", LimitPause{})
	for _, err := range []error{set, paused} {
		if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), "name: runs of workflows have no limits") {
			t.Errorf("a limit of runs: %v", err)
		}
	}
	fields := make([]any, 0, 2*limit.Most)
	for i := range limit.Most - 1 {
		fields = append(fields, fmt.Sprint("key:", i), `{"slots":1}`)
	}
	testkit.Must(t, w.db.HSet(w.ctx, string(w.store.Keys.Rules()), fields...).Err())
	dry := LimitPut{LimitRule{Slots: 2}, true}
	if _, err := w.SetLimit(w.ctx, me, "type:http", dry); err != nil {
		t.Errorf("the last limit: %v", err)
	}
	testkit.Must(t, w.setLimit(me, "type:http", LimitRule{Slots: 1}))
	if _, err := w.SetLimit(w.ctx, me, "type:http", dry); err != nil {
		t.Errorf("one that there is: %v", err)
	}
	_, err := w.SetLimit(w.ctx, me, "type:shell", dry)
	if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), "name: there are 1000 limits") {
		t.Errorf("one too many: %v", err)
	}
}

// setLimit sets what a limit allows.
func (w *world) setLimit(who Caller, name string, rule LimitRule) error {
	_, err := w.SetLimit(w.ctx, who, name, LimitPut{Rule: rule})
	return err
}

func TestSetLimit_SaysWhatItChanges(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	put := func(slots int, dryRun bool) string {
		change, err := w.SetLimit(w.ctx, me, "key:*", LimitPut{LimitRule{Slots: slots}, dryRun})
		return fmt.Sprint(change.Created, change.Changed, err)
	}
	for i, step := range []struct {
		slots  int
		dryRun bool
		want   string
	}{
		{5, true, "true true <nil>"},
		{5, false, "true true <nil>"},
		{5, false, "false false <nil>"},
		{6, true, "false true <nil>"},
		{5, true, "false false <nil>"},
		{6, false, "false true <nil>"},
	} {
		if got := put(step.slots, step.dryRun); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// A task whose payload pauses the limit of its key has a key, when it is submitted and when it is changed.
func TestSubmit_RefusesAPauseOfNoKey(t *testing.T) {
	t.Parallel()
	w := newKnowing(t)
	w.types = task.Types{"http": {PausesKey: func(payload json.RawMessage) bool { return string(payload) == `"pauses"` }}}
	d := task.Definition{Ref: task.Ref{ID: "a"}, Type: "http", Payload: json.RawMessage(`"pauses"`), Delay: time.Hour}
	refused := func(name string, err error) {
		t.Helper()
		if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), "limit_key") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.Submit(w.ctx, me, d)
	refused("without a key", err)
	follows := task.Definition{Ref: task.Ref{ID: "b"}, Type: "http", Payload: json.RawMessage(`1`), Delay: time.Hour}
	follows.OnEnd = &task.FollowUp{When: task.WhenEnded, Task: task.Definition{Type: "http", Payload: d.Payload}}
	_, err = w.Submit(w.ctx, me, follows)
	refused("of a follow-up", err)
	d.LimitKey = "tenant-7"
	_, err = w.Submit(w.ctx, me, d)
	testkit.Must(t, err)
	_, err = w.ChangeTask(w.ctx, me, "a", TaskChange{LimitKey: new("")})
	refused("a change that removes the key", err)
}
