package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestMedian_IsTheMiddle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{7}, 7},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}

func TestPercentile_IsTheSmallestValueThatSoManyDoNotExceed(t *testing.T) {
	t.Parallel()
	values := make([]float64, 200)
	for i := range values {
		values[i] = float64(200 - i)
	}
	for p, want := range map[float64]float64{0: 1, 50: 100, 99: 198, 100: 200} {
		if got := percentile(values, p); got != want {
			t.Errorf("p%v = %v, want %v", p, got, want)
		}
	}
}

func TestOvertakes_TellByHowMuchEachWasOvertaken(t *testing.T) {
	t.Parallel()
	if got := overtakes([]float64{0, 5, 3, 5, 9, 1}); !slices.Equal(got, []float64{0, 0, 2, 0, 0, 8}) {
		t.Errorf("got %v", got)
	}
}

func TestFormat_KeepsThreeDigits(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		1234567.4: "1,234,567", 20000: "20,000", 100: "100", 99.46: "99.5", 1.234: "1.23", 0.021: "0.02", 3: "3", -1500: "-1,500", math.NaN(): "-",
	} {
		if got := format(v); got != want {
			t.Errorf("format(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestSummarize_TakesMedianAndSpreadAndHoldsThemAgainstGoals(t *testing.T) {
	t.Parallel()
	round := func(rate, lateness float64) figures {
		return figures{{"rate", rate, "x"}, {"lateness", lateness, "ms"}}
	}
	got, err := summarize([]figures{round(1.4, 7), round(1.7, 9), round(1.6, 8)}, []goal{atLeast("rate", 1.5), atMost("lateness", 7)})
	if err != nil {
		t.Fatal(err)
	}
	if s := got[0]; s.median != 1.6 || s.min != 1.4 || s.max != 1.7 || !s.met() {
		t.Errorf("rate: %+v", s)
	}
	if s := got[1]; s.median != 8 || s.met() {
		t.Errorf("lateness: %+v", s)
	}
	if _, err := summarize([]figures{round(1, 1)}, []goal{atLeast("speed", 1)}); err == nil {
		t.Error("a goal without a figure is accepted")
	}
}

func TestRows_HaveNamesOfTheirOwnAndGoalsOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range append(rows(), peerRows(nil)...) {
		if r.name == "" || seen[r.name] || r.title == "" || r.method == "" || r.run == nil {
			t.Errorf("row %q is there twice or incomplete", r.name)
		}
		seen[r.name] = true
	}
}

func TestResults_SayWhatIsMissedAndWhatFailed(t *testing.T) {
	t.Parallel()
	g := atLeast("rate", 1.5)
	results := []result{
		{row: row{name: "drain", title: "Drain", method: "So."}, rounds: 3, summaries: []summary{{name: "rate", unit: "x", median: 0.27, min: 0.2, max: 0.3, goal: &g}}},
		{row: row{name: "idle", title: "Idle", method: "So."}, err: errBroken{}},
	}
	var page strings.Builder
	if err := writeResults(&page, conditions{}, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| **rate** | 0.27 x | 0.20–0.30 | ≥ 1.50 | missed |", "Failed: broken"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
	for _, hold := range []bool{false, true} {
		err := failures(results, hold)
		if err == nil || strings.Contains(err.Error(), "rate is 0.27 x, must be ≥ 1.50") != hold {
			t.Errorf("goals hold %v: %v", hold, err)
		}
	}
}

type errBroken struct{}

func (errBroken) Error() string { return "broken" }
