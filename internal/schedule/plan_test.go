package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/task"
)

var (
	ref  = task.Ref{Namespace: "default", ID: "s"}
	noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
)

func every(t *testing.T, d time.Duration, change func(*Spec)) *Timetable {
	t.Helper()
	spec := Spec{Rules: []Rule{{Every: d}}, StartAt: noon}
	if change != nil {
		change(&spec)
	}
	table, err := Compile(spec, ref, noon)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// agenda is that of a schedule which ticks each minute from noon on and was last looked at then.
func agenda(t *testing.T, late time.Duration, m Misfire) Agenda {
	t.Helper()
	table := every(t, time.Minute, nil)
	return Agenda{
		Timeline: Timeline{{Span: Span{From: noon}, Table: table}}, Present: table, Misfire: m, Cursor: noon, Now: noon.Add(late),
	}
}

// told is a plan's decisions in short: minutes after noon, with what is done.
func told(p Plan) string {
	var b strings.Builder
	for _, d := range p.Decisions {
		fmt.Fprintf(&b, "%s:%s", d.Tick.Sub(noon), map[Action]string{ActFire: "fire", ActMiss: "miss", ActExclude: "exclude"}[d.Action])
		if d.Delay > 0 {
			fmt.Fprintf(&b, "+%s", d.Delay)
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

func TestPlan_FollowsTheMisfirePolicy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		late time.Duration
		m    Misfire
		want string
	}{
		"nothing is due":                {30 * time.Second, Misfire{}, ""},
		"on time":                       {time.Minute, Misfire{Policy: MisfireSkip}, "1m0s:fire"},
		"as late as on time may be":     {time.Minute + OnTime, Misfire{Policy: MisfireSkip}, "1m0s:fire"},
		"later than that":               {time.Minute + OnTime + time.Millisecond, Misfire{Policy: MisfireSkip}, "1m0s:miss"},
		"once":                          {4*time.Minute + 30*time.Second, Misfire{}, "1m0s:miss 2m0s:miss 3m0s:miss 4m0s:fire"},
		"once, and one is on time":      {4 * time.Minute, Misfire{}, "1m0s:miss 2m0s:miss 3m0s:miss 4m0s:fire"},
		"once, beyond the window":       {90 * time.Second, Misfire{Policy: MisfireOnce, Window: 20 * time.Second}, "1m0s:miss"},
		"all":                           {3*time.Minute + 30*time.Second, Misfire{Policy: MisfireAll}, "1m0s:fire 2m0s:fire+1s 3m0s:fire+2s"},
		"all within a window":           {3*time.Minute + 30*time.Second, Misfire{Policy: MisfireAll, Window: 90 * time.Second}, "1m0s:miss 2m0s:fire 3m0s:fire+1s"},
		"all, but the newest two":       {4*time.Minute + 30*time.Second, Misfire{Policy: MisfireAll, Max: 2}, "1m0s:miss 2m0s:miss 3m0s:fire 4m0s:fire+1s"},
		"skip, and one is on time":      {2 * time.Minute, Misfire{Policy: MisfireSkip}, "1m0s:miss 2m0s:fire"},
		"all, and one is not a misfire": {2 * time.Minute, Misfire{Policy: MisfireAll}, "1m0s:fire 2m0s:fire"},
	} {
		t.Run(name, func(t *testing.T) {
			p := MakePlan(agenda(t, c.late, c.m))
			if got := told(p); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !p.Upto.Equal(noon.Add(c.late)) || !p.Next.After(p.Upto) {
				t.Errorf("upto %s, next %s", p.Upto, p.Next)
			}
			for _, d := range p.Decisions {
				if d.Action == ActMiss && d.Reason == "" {
					t.Errorf("%s is missed without a reason", d.Tick)
				}
			}
		})
	}
}

func TestPlan_TreatsTicksOfAPauseAsMisfiresHoweverLateTheyAre(t *testing.T) {
	t.Parallel()
	a := agenda(t, 2*time.Minute+time.Second, Misfire{Policy: MisfireSkip})
	a.LastPause = Span{From: noon.Add(90 * time.Second), Until: noon.Add(121 * time.Second)}
	p := MakePlan(a)
	if got := told(p); got != "1m0s:miss 2m0s:miss" {
		t.Errorf("got %s", got)
	}
	if reason := p.Decisions[1].Reason; !strings.HasPrefix(reason, "paused") {
		t.Errorf("the reason is %q", reason)
	}
}

func TestPlan_SaysWhyTicksWereHeldBack(t *testing.T) {
	t.Parallel()
	a := agenda(t, 3*time.Minute+time.Second, Misfire{})
	a.Held = "held back"
	for heldFor, want := range map[time.Duration][]string{
		3 * time.Minute: {"held back; a later tick runs for all", "held back; a later tick runs for all", ""},
		time.Minute:     {"held back; a later tick runs for all", "not fired in time; a later tick runs for all", ""},
	} {
		a.HeldUntil = a.Cursor.Add(heldFor)
		var reasons []string
		for _, d := range MakePlan(a).Decisions {
			reasons = append(reasons, d.Reason)
		}
		if diff := cmp.Diff(want, reasons); diff != "" {
			t.Errorf("held back for %s: reasons (-want +got):\n%s", heldFor, diff)
		}
	}
}

// All nodes were away for a minute, and are back 1.7 s after a tick: the fresh tick runs, not one that is 20 s old.
func TestPlan_RunsTheNewestTickForAllBeforeIt(t *testing.T) {
	t.Parallel()
	table := every(t, 20*time.Second, nil)
	a := Agenda{
		Timeline: Timeline{{Span: Span{From: noon}, Table: table}}, Present: table, Cursor: noon, Now: noon.Add(61700 * time.Millisecond),
	}
	p := MakePlan(a)
	if got := told(p); got != "20s:miss 40s:miss 1m0s:fire" {
		t.Fatalf("got %s", got)
	}
	if reason := p.Decisions[1].Reason; reason != "not fired in time; a later tick runs for all" {
		t.Errorf("the reason is %q", reason)
	}
	a.Timeline[0].Table = every(t, 20*time.Second, func(s *Spec) { s.Exclude = []string{"1 12 * * *"} })
	if got := told(MakePlan(a)); got != "20s:miss 40s:fire 1m0s:exclude" {
		t.Errorf("where the newest is excluded: %s", got)
	}
}

func TestPlan_RecordsAnExcludedTickThatNeverRuns(t *testing.T) {
	t.Parallel()
	a := agenda(t, 3*time.Minute+20*time.Second, Misfire{})
	a.Timeline[0].Table = every(t, time.Minute, func(s *Spec) { s.Exclude = []string{"3 12 * * *"} })
	if got := told(MakePlan(a)); got != "1m0s:miss 2m0s:fire 3m0s:exclude" {
		t.Errorf("got %s", got)
	}
}

func TestPlan_DelaysEachTickByItsJitter(t *testing.T) {
	t.Parallel()
	a := agenda(t, time.Minute, Misfire{})
	a.Present = every(t, time.Minute, func(s *Spec) { s.Jitter = time.Hour })
	d := MakePlan(a).Decisions[0]
	if want := a.Present.Offset(d.Tick); want == 0 || !d.Due.Equal(d.Tick.Add(want)) {
		t.Errorf("due %s after the tick, want %s", d.Due.Sub(d.Tick), want)
	}
}

func TestPlan_HasNoTicksAfterTheEnd(t *testing.T) {
	t.Parallel()
	a := agenda(t, time.Hour, Misfire{})
	a.Done = true
	if p := MakePlan(a); len(p.Decisions) > 0 || !p.Upto.Equal(a.Cursor) || !p.Next.IsZero() {
		t.Errorf("%+v", p)
	}
}

func TestPlan_DecidesNothingTwiceWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	a := agenda(t, time.Minute, Misfire{})
	a.Cursor = noon.Add(5 * time.Minute)
	p := MakePlan(a)
	if len(p.Decisions) > 0 || !p.Upto.Equal(a.Cursor) || !p.Next.Equal(noon.Add(6*time.Minute)) {
		t.Errorf("%+v", p)
	}
}

// Whatever the outage, planning in pieces comes to the same decisions as planning at once.
func TestPlan_InPiecesDecidesEveryTickOnce(t *testing.T) {
	t.Parallel()
	for _, m := range []Misfire{
		{Policy: MisfireSkip}, {Policy: MisfireOnce}, {Policy: MisfireOnce, Window: 24 * time.Hour},
		{Policy: MisfireAll, Max: 1000, Window: 24 * time.Hour}, {Policy: MisfireAll, Max: 700, Window: 13 * time.Hour}, {Policy: MisfireAll},
	} {
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			a := agenda(t, 24*time.Hour+7*time.Second, m)
			var all []Decision
			rounds := 0
			for ; a.Cursor.Before(a.Now); rounds++ {
				p := MakePlan(a)
				if len(p.Decisions) > planLimit+m.WithDefaults().Max || !p.Upto.After(a.Cursor) {
					t.Fatalf("a plan of %d decisions up to %s", len(p.Decisions), p.Upto)
				}
				all = append(all, p.Decisions...)
				a.Cursor = p.Upto
			}
			counts := map[Action]int{}
			for i, d := range all {
				if want := noon.Add(time.Duration(i+1) * time.Minute); !d.Tick.Equal(want) {
					t.Fatalf("number %d is %s, want %s", i, d.Tick, want)
				}
				counts[d.Action]++
			}
			resolved := m.WithDefaults()
			runs := map[MisfirePolicy]int{MisfireAll: min(resolved.Max, int(resolved.Window/time.Minute)-1)}[m.Policy]
			want := map[Action]int{ActFire: runs + 1, ActMiss: 1440 - runs - 1} // the last tick is on time; with once, it runs for all
			if diff := cmp.Diff(want, counts); diff != "" {
				t.Errorf("in %d rounds (-want +got):\n%s", rounds, diff)
			}
		})
	}
}

func TestPlan_ForgetsTheOldestTicksOfAnOutageLongerThanTheLedger(t *testing.T) {
	t.Parallel()
	a := agenda(t, 300*24*time.Hour, Misfire{})
	p := MakePlan(a)
	if !p.Forgotten.After(a.Cursor) {
		t.Fatalf("nothing was forgotten of %d minutes", 300*24*60)
	}
	left := int(a.Now.Sub(p.Forgotten) / time.Minute)
	if left > LedgerLimit || left < LedgerLimit/3 {
		t.Errorf("%d ticks are left", left)
	}
	if first := p.Decisions[0].Tick; !first.After(p.Forgotten) || first.Sub(p.Forgotten) > time.Minute {
		t.Errorf("the first decision is about %s, forgotten is what was up to %s", first, p.Forgotten)
	}
}

func TestTickName_IsParsedAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{noon, noon.Add(250 * time.Millisecond), noon.Add(time.Millisecond)} {
		got, manual, err := ParseTickName(TickName(at))
		if err != nil || manual || !got.Equal(at) {
			t.Errorf("%s: %s, %v, %v", TickName(at), got, manual, err)
		}
		got, manual, err = ParseTickName(ManualName(at))
		if err != nil || !manual || !got.Equal(at) {
			t.Errorf("%s: %s, %v, %v", ManualName(at), got, manual, err)
		}
	}
	if got := TickName(noon); got != "20260504T120000Z" {
		t.Errorf("%s", got)
	}
	for _, bad := range []string{"", "x", "20260504T120000", "20260504T120000.000Z", "20260504T120000.2Z", "20260504T120000Z-manual"} {
		if _, _, err := ParseTickName(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestDefinition_RefusesWhatIsInvalidWithTheField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Definition)
		field  string
	}{
		"nothing wrong":     {func(*Definition) {}, ""},
		"no id":             {func(d *Definition) { d.ID = "" }, "id"},
		"id too long":       {func(d *Definition) { d.ID = strings.Repeat("x", IDLimit+1) }, "id"},
		"id of a tick":      {func(d *Definition) { d.ID = "a@b" }, "id"},
		"namespace":         {func(d *Definition) { d.Namespace = "a b" }, "namespace"},
		"no times":          {func(d *Definition) { d.Rules = nil }, "cron"},
		"zone":              {func(d *Definition) { d.Timezone = "Mars/Olympus" }, "timezone"},
		"task's type":       {func(d *Definition) { d.Task.Type = "" }, "task.type"},
		"task's delay":      {func(d *Definition) { d.Task.Delay = time.Second }, "task.run_at"},
		"task's retries":    {func(d *Definition) { d.Task.Retry.MaxAttempts = -1 }, "task.retry.max_attempts"},
		"max_runs":          {func(d *Definition) { d.MaxRuns = -1 }, "max_runs"},
		"pause_on_failure":  {func(d *Definition) { d.PauseOnFailure = FailuresLimit + 1 }, "pause_on_failure"},
		"misfire policy":    {func(d *Definition) { d.Misfire.Policy = "never" }, "misfire.policy"},
		"misfire window":    {func(d *Definition) { d.Misfire.Window = -time.Second }, "misfire.window"},
		"window below a ms": {func(d *Definition) { d.Misfire.Window = time.Microsecond }, "misfire.window"},
		"window too long":   {func(d *Definition) { d.Misfire.Window = WindowLimit + time.Second }, "misfire.window"},
		"misfire max":       {func(d *Definition) { d.Misfire.Max = MaxLimit + 1 }, "misfire.max"},
		"overlap":           {func(d *Definition) { d.Overlap = "maybe" }, "overlap"},
		"owner":             {func(d *Definition) { d.Owner = "\xff" }, "owner"},
		"label":             {func(d *Definition) { d.Labels = map[string]string{"": "x"} }, "labels"},
		"description":       {func(d *Definition) { d.Description = strings.Repeat("x", DescriptionLimit+1) }, "description"},
		"description UTF-8": {func(d *Definition) { d.Description = "\xff" }, "description"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Definition{Ref: ref, Spec: Spec{Rules: []Rule{{Cron: "@daily"}}}, Task: task.Definition{Type: "http"}}
			c.change(&d)
			err := d.Normalize().Validate()
			bad, _ := err.(*task.Error) //nolint:errorlint // Validate promises this very type
			switch {
			case c.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.field != "" && (bad == nil || bad.Code != task.CodeInvalid || bad.Field != c.field || bad.Message == ""):
				t.Errorf("got %v, want field %q", err, c.field)
			}
		})
	}
}

// The ticks of a revision that is missing are unknown: its end is a decision of its own, in the order of the ticks.
func TestPlan_MissesTheHolesOfAHistory(t *testing.T) {
	t.Parallel()
	table := every(t, time.Minute, nil)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes)*time.Minute + 30*time.Second) }
	period := func(revision, from, until int) Period {
		return Period{Span: Span{From: at(from), Until: at(until)}, Table: table, Revision: revision}
	}
	for name, c := range map[string]struct {
		line   Timeline
		cursor int
		want   string
	}{
		"none":                     {Timeline{period(1, 0, 2), period(2, 2, 9)}, 0, "1m0s:miss 2m0s:miss 3m0s:miss 4m0s:fire"},
		"one in between":           {Timeline{period(1, 0, 1), period(3, 3, 9)}, 0, "1m0s:miss 3m30s:miss 4m0s:fire"},
		"the first two":            {Timeline{period(3, 2, 9)}, 0, "2m30s:miss 3m0s:miss 4m0s:fire"},
		"one before the cursor":    {Timeline{period(2, 1, 9)}, 1, "2m0s:miss 3m0s:miss 4m0s:fire"},
		"the numbers are unknown":  {Timeline{period(0, 0, 2), period(0, 3, 9)}, 0, "1m0s:miss 2m0s:miss 4m0s:fire"},
		"one that ends in the end": {Timeline{period(1, 0, 1), period(3, 3, 4)}, 2, "3m30s:miss 4m0s:fire"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Agenda{Timeline: c.line, Present: table, Cursor: at(c.cursor), Now: at(4)}
			if got := told(MakePlan(a)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
