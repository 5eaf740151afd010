package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Two weeks and more across the transitions of the USA and of Europe, in spring and in autumn: what random specs do is
// exactly what the oracle says, in zones of every kind. The short form takes 30 of 500 specs.
func TestTimeline_AgreesWithTheOracleForFortnightsAcrossTransitions(t *testing.T) {
	t.Parallel()
	const specs, seed = 500, 3
	rng := rand.New(rand.NewPCG(seed, seed))
	all, refused := make([]Spec, specs), 0
	for i := range all {
		for all[i] = randomSpec(rng); excludesItself(all[i]); all[i] = randomSpec(rng) {
			refused++
		}
		all[i].Timezone = fortnightZones[i%len(fortnightZones)]
	}
	if refused > specs/20 {
		t.Errorf("%d random specs are refused because their exclusions cover them", refused)
	}
	sample := testkit.Sample(t, 30, all)
	for _, span := range []Span{
		{time.Date(2026, 3, 6, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)},
		{time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 8, 0, 0, 0, 0, time.UTC)},
	} {
		ticks, excluded := 0, 0
		walks := map[string][]shown{}
		for _, spec := range sample {
			want := expectTicks(t, spec, span, walks)
			table, err := Compile(spec, task.Ref{}, anchorOfSpecs)
			if err != nil {
				t.Fatalf("%+v: %v", spec, err)
			}
			got, _ := Timeline{{Table: table}}.Ticks(span.From, span.Until, len(want)+1)
			if diff := firstTickDifference(got, want); diff != "" {
				t.Errorf("%+v: %s", spec, diff)
			}
			ticks += len(want)
			for _, tick := range want {
				if tick.Excluded {
					excluded++
				}
			}
		}
		t.Logf("from %s: %d ticks, %d of them excluded", span.From.Format(time.DateOnly), ticks, excluded)
		if ticks < testkit.Amount(10_000, 100_000) || excluded < testkit.Amount(500, 5_000) {
			t.Errorf("%d ticks, %d of them excluded, prove little", ticks, excluded)
		}
	}
}

var anchorOfSpecs = time.Date(2026, 2, 27, 13, 14, 15, 678e6, time.UTC)

var fortnightZones = strings.Fields(`America/New_York Europe/Berlin UTC America/Los_Angeles Europe/London
	Australia/Lord_Howe Asia/Shanghai America/Chicago Europe/Dublin Europe/Lisbon Atlantic/Azores America/St_Johns
	America/Halifax America/Denver America/Anchorage America/Adak America/Phoenix America/Havana America/Sao_Paulo
	America/Santiago America/Nuuk America/Mexico_City America/Port-au-Prince Europe/Moscow Europe/Chisinau
	Europe/Istanbul Africa/Cairo Africa/Casablanca Asia/Beirut Asia/Jerusalem Asia/Gaza Asia/Kolkata Asia/Kathmandu
	Asia/Tehran Asia/Tokyo Australia/Sydney Australia/Adelaide Pacific/Auckland Pacific/Chatham Antarctica/Troll`)

func excludesItself(s Spec) bool {
	_, err := Compile(s, task.Ref{}, anchorOfSpecs)
	return err != nil && strings.HasPrefix(err.Error(), "exclude")
}

// expectTicks is the oracle's list.
func expectTicks(t *testing.T, spec Spec, span Span, walks map[string][]shown) []Tick {
	t.Helper()
	loc, err := time.LoadLocation(spec.Timezone)
	if err != nil {
		t.Fatal(err)
	}
	if walks[spec.Timezone] == nil { // a day earlier, so that the clock's highest time so far is known
		walks[spec.Timezone] = walk(loc, span.From.Add(-24*time.Hour), span.Until, time.Minute)
	}
	var instants []time.Time
	for _, r := range spec.Rules {
		if r.Cron != "" {
			instants = append(instants, newOracleCron(r.Cron).fires(walks[spec.Timezone], time.Minute)...)
			continue
		}
		anchor := spec.StartAt
		if anchor.IsZero() {
			anchor = anchorOfSpecs
		}
		for at := anchor; !at.After(span.Until); at = at.Add(r.Every) {
			instants = append(instants, at)
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	instants = slices.CompactFunc(instants, time.Time.Equal)
	excludes := newOracleExcludes(spec.Exclude)
	var ticks []Tick
	for _, at := range instants {
		late := !spec.EndAt.IsZero() && at.After(spec.EndAt)
		if !at.After(span.From) || at.After(span.Until) || at.Before(spec.StartAt) || late {
			continue
		}
		ticks = append(ticks, Tick{at, excludes.cover(wallOf(at, loc))})
	}
	return ticks
}

type oracleExcludes struct {
	dates [][2]string
	crons []*oracleCron
}

func newOracleExcludes(texts []string) oracleExcludes {
	var x oracleExcludes
	for _, text := range texts {
		if strings.Contains(text, " ") {
			x.crons = append(x.crons, newOracleCron(text))
			continue
		}
		from, to, isRange := strings.Cut(text, "/")
		if !isRange {
			to = from
		}
		x.dates = append(x.dates, [2]string{from, to})
	}
	return x
}

func (x oracleExcludes) cover(wall time.Time) bool {
	for _, c := range x.crons {
		if c.covers(wall) {
			return true
		}
	}
	date := ""
	for _, d := range x.dates {
		if date == "" {
			date = wall.Format(time.DateOnly)
		}
		if d[0] <= date && date <= d[1] {
			return true
		}
	}
	return false
}

func firstTickDifference(got, want []Tick) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("the oracle also ticks at %v", want[i])
		case i >= len(want):
			return fmt.Sprintf("ticks at %v, the oracle does not any more", got[i])
		case !got[i].At.Equal(want[i].At) || got[i].Excluded != want[i].Excluded:
			return fmt.Sprintf("ticks %v, the oracle %v", got[i], want[i])
		}
	}
	return ""
}

// randomSpec makes up a union of one to three rules, some with exclusions, a start or an end.
func randomSpec(rng *rand.Rand) Spec {
	var s Spec
	for range 1 + rng.IntN(6)/4 + rng.IntN(6)/5 {
		if rng.IntN(6) == 0 {
			s.Rules = append(s.Rules, Rule{Every: time.Duration(60_000+rng.IntN(50_000_000)) * time.Millisecond})
			continue
		}
		s.Rules = append(s.Rules, Rule{Cron: randomCron(rng)})
	}
	for range rng.IntN(4) {
		s.Exclude = append(s.Exclude, randomExclude(rng))
	}
	if rng.IntN(8) == 0 {
		s.StartAt = time.Date(2026, 3, 1, rng.IntN(400), rng.IntN(60), 0, 0, time.UTC)
	}
	if rng.IntN(8) == 0 {
		s.EndAt = time.Date(2026, 10, 25, rng.IntN(300), rng.IntN(60), 0, 0, time.UTC)
	}
	return s
}

func randomCron(rng *rand.Rand) string {
	dom, month, dow := randomDays(rng)
	text := fmt.Sprintf("%s %s %s %s %s", randomMinute(rng), randomHour(rng), dom, month, dow)
	switch rng.IntN(4) {
	case 0:
		return randomOf(rng, "0", "30", "59", "0,20,40", "*/30", "5-7") + " " + text
	case 1:
		return "0 " + text + " " + randomOf(rng, "*", "2026", "2025-2030", "2020/2", "2026,2030")
	}
	return text
}

func randomMinute(rng *rand.Rand) string {
	a := rng.IntN(60)
	return randomOf(rng, "0", "30", "*", "*/15", "*/7", fmt.Sprint(a), fmt.Sprintf("%d,%d", a, (a*7+11)%60),
		fmt.Sprintf("%d-59/9", a), fmt.Sprintf("0-%d", a), fmt.Sprintf("%d/20", a%20))
}

// randomHour prefers the hours in which clocks change.
func randomHour(rng *rand.Rand) string {
	a := rng.IntN(24)
	return randomOf(rng, "2", "1", "0", "3", "0-4", "1,2,3", "*", "*/2", "*/5", "23", fmt.Sprint(a), fmt.Sprintf("%d-23/3", a))
}

func randomDays(rng *rand.Rand) (dom, month, dow string) {
	d, w := 1+rng.IntN(28), rng.IntN(8)
	month = randomOf(rng, "*", "*", "*", "3,10,11", "MAR,OCT,NOV", "*/1", "1-12", "2-12/1", "MAR-NOV")
	special := randomOf(rng, "L", fmt.Sprintf("L-%d", rng.IntN(28)+1), "LW", fmt.Sprintf("%dW", d), fmt.Sprintf("%dW,L", d),
		fmt.Sprint(d), fmt.Sprintf("%d-31/2", d), "8,29,31", "25", "1W", "29-31", "*/9")
	weekday := randomOf(rng, "SUN", "0", "7", "1-5", "MON-FRI", "SAT,SUN", "FRI-MON", "6-2", "WED-TUE/3", fmt.Sprint(w), fmt.Sprintf("%dL", w),
		fmt.Sprintf("%d#%d", w, 1+rng.IntN(5)), "SUN#2", "SUNL", "5-7", "*/2", "SUN,3#2,FRIL")
	switch rng.IntN(5) {
	case 0:
		return special, month, randomOf(rng, "*", "?")
	case 1:
		return randomOf(rng, "*", "?"), month, weekday
	case 2:
		return special, month, weekday
	}
	return "*", month, "*"
}

func randomExclude(rng *rand.Rand) string {
	day := 1 + rng.IntN(28)
	return randomOf(rng, fmt.Sprintf("2026-03-%02d", day), fmt.Sprintf("2026-10-%02d/2026-11-%02d", day, 1+rng.IntN(9)),
		"2026-03-08", "2026-11-01", "2026-10-25", "2026-03-29", "* 2 * * *", "* 0-5 * * SUN", "30 * * * *", "* * 8,29 * *",
		"0 */2 * * * *", "* * LW * *", "* * * 11 *", "0 0 12 * * * 2026")
}

func randomOf(rng *rand.Rand, choices ...string) string { return choices[rng.IntN(len(choices))] }
