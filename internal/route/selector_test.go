package route

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/task"
)

// labeled returns the labels of a node from a text as "zone=eu role=api role=worker spot".
func labeled(text string) Labels {
	values := make(map[string][]string)
	for item := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(item, "=")
		values[name] = append(values[name], value)
	}
	return func(name string) []string { return values[name] }
}

// parsed reads a selector that must be valid.
func parsed(t testing.TB, text string) Selector {
	t.Helper()
	s, err := ParseSelector(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

func TestSelector_MatchesNodes(t *testing.T) {
	t.Parallel()
	const node = "id=n-1 name=N.1 version=v1.2.3+dirty role=api role=worker " +
		"zone=eu spot mem=16 cpus=8.5 temp=-3 big=1e9 ver=1.2.3"
	for selector, want := range map[string]bool{
		"": true, "zone=eu": true, "zone==eu": true, "zone = eu": true, "zone=us": false, "zone=e": false, "zone=EU": false,
		"rack=eu": false, "rack=": false, "spot=": true, "zone=": false, "spot!=": false, "zone!=": true,
		"zone!=us": true, "zone!=eu": false, "rack!=us": true, "role!=api": false, "role!=web": true,
		"role=api": true, "role=worker": true, "role=web": false,
		"zone in (us, eu)": true, "zone in(us,ap)": false, "rack in (us)": false, "role in (web, worker)": true,
		"zone notin (us, eu)": false, "zone notin (us)": true, "rack notin (us)": true, "role notin (api, x)": false,
		"zone": true, "spot": true, "rack": false, "!zone": false, "!spot": false, "!rack": true, "! rack": true,
		"mem>=16": true, "mem>=16.5": false, "mem>16": false, "mem>15": true, "mem<=16": true, "mem<16": false,
		"mem<17": true, "mem > 9": true, "cpus>8": true, "cpus<9": true, "temp<0": true, "temp>=-3": true, "temp<-3.5": false,
		"mem=16.0": false, "mem>=16.0": true, "rack>0": false, "rack<0": false, "zone>0": false, "spot<=0": false,
		"big>1": false, "ver>1": false, "id=n-1": true, "name=N.1": true, "version=v1.2.3+dirty": true,
		"zone in (eu, us), spot, !rack, mem>=16, id=n-1": true, "zone in (eu, us), spot, !rack, mem>16": false,
		"zone=eu, zone=us": false, "in": false, "notin in (in)": false,
	} {
		if got := parsed(t, selector).Matches(labeled(node)); got != want {
			t.Errorf("%q matches: %v, want %v", selector, got, want)
		}
	}
	for _, selector := range []string{"in", "in in (in)", "in notin(notin)", "notin=in", "notin notin (x)"} {
		if !parsed(t, selector).Matches(labeled("in=in notin=in")) {
			t.Errorf("%q must match: in and notin are names as well", selector)
		}
	}
}

func TestSelector_HasOneTextForEqualTerms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "",
		" zone == eu ":                       "zone=eu",
		"zone in (eu)":                       "zone=eu",
		"zone in (eu, eu)":                   "zone=eu",
		"zone notin(eu)":                     "zone!=eu",
		"zone in (us,eu , ap)":               "zone in (ap,eu,us)",
		"zone\tnotin\n( us , eu )":           "zone notin (eu,us)",
		"! gpu":                              "!gpu",
		"mem >= 16":                          "mem>=16",
		"zone =":                             "zone=",
		"zone=eu, gpu, !spot, mem>16, a,gpu": "!spot,a,gpu,mem>16,zone=eu",
	} {
		if got := parsed(t, text).String(); got != want {
			t.Errorf("%q has the text %q, want %q", text, got, want)
		}
	}
}

func TestParseSelector_SaysWhatWouldBeValid(t *testing.T) {
	t.Parallel()
	const (
		name = `must begin with the name of a label, or with ! and a name: ` +
			`1 to 63 of A-Z a-z 0-9 . _ - /, the first a letter or a digit`
		empty = `must be a term, as zone=eu; a comma stands between two terms`
		after = `must come one of = == != in notin > >= < <=, or nothing`
		value = `must come a value of A-Z a-z 0-9 . _ - / +; several are listed as a in (a, b)`
		list  = `must come a list in parentheses, as in`
		item  = `must be 1 or more of A-Z a-z 0-9 . _ - / +, with commas between values`
	)
	long := strings.Repeat("x", 64)
	for text, want := range map[string]string{
		" \t":          `has only blanks; must have a term, as zone=eu, or be empty`,
		",":            `term 1, "", at character 1: ` + empty,
		"a,":           `term 2, "", at character 3: ` + empty,
		"a, ,b":        `term 2, "", at character 4: ` + empty,
		"a in (b, c),": `term 2, "", at character 13: ` + empty,
		"é=1":          `term 1, "é=1", at character 1: ` + name,
		"a=é,b":        `term 1, "a=é", at character 1: after = ` + value,
		"!":            `term 1, "!", at character 1: ` + name,
		"!a=b":         `term 1, "!a=b", at character 1: ` + name,
		"a,  -a":       `term 2, "-a", at character 5: ` + name,
		"=b":           `term 1, "=b", at character 1: ` + name,
		"a+b":          `term 1, "a+b", at character 1: ` + name,
		long:           `term 1, "` + long + `", at character 1: ` + name,
		"a b":          `term 1, "a b", at character 1: after a ` + after,
		"a inb":        `term 1, "a inb", at character 1: after a ` + after,
		"a IN (b)":     `term 1, "a IN (b)", at character 1: after a ` + after,
		"a!":           `term 1, "a!", at character 1: after a ` + after,
		"a=b c":        `term 1, "a=b c", at character 1: after = ` + value,
		"a===b":        `term 1, "a===b", at character 1: after == ` + value,
		"gpu, mem>=x":  `term 2, "mem>=x", at character 6: after >= must come a number, as in mem>=16`,
		"mem>":         `term 1, "mem>", at character 1: after > must come a number, as in mem>16`,
		"mem<1e3":      `term 1, "mem<1e3", at character 1: after < must come a number, as in mem<16`,
		"mem<Inf":      `term 1, "mem<Inf", at character 1: after < must come a number, as in mem<16`,
		"mem<1.2.3":    `term 1, "mem<1.2.3", at character 1: after < must come a number, as in mem<16`,
		"a in":         `term 1, "a in", at character 1: after in ` + list + ` a in (a, b)`,
		"a in (b":      `term 1, "a in (b", at character 1: after in ` + list + ` a in (a, b)`,
		"a notin b)":   `term 1, "a notin b)", at character 1: after notin ` + list + ` a notin (a, b)`,
		"a in (b) c":   `term 1, "a in (b) c", at character 1: after in ` + list + ` a in (a, b)`,
		"a in ()":      `term 1, "a in ()", at character 1: the value "" ` + item,
		"a in (b,,c)":  `term 1, "a in (b,,c)", at character 1: the value "" ` + item,
		"a in (b c)":   `term 1, "a in (b c)", at character 1: the value "b c" ` + item,

		strings.Repeat("a,", 16) + "a":             `has more than 16 terms; must have at most 16`,
		strings.Repeat("é", 1001):                  `has 1001 characters; must have at most 1000`,
		"a in(" + strings.Repeat("b", 992) + ",c)": `has 1001 characters; must have at most 1000`, // with the blank
	} {
		_, err := ParseSelector(text)
		var invalid *task.Error
		valid := errors.As(err, &invalid) && invalid.Code == task.CodeInvalid && invalid.Field == "select"
		if !valid || invalid.Message != want {
			t.Errorf("%q: %v\nwant select: %s", text, err, want)
		}
	}
	for _, text := range []string{strings.Repeat("a,", 15) + "a", "a=" + strings.Repeat("b", 998), long[1:]} {
		parsed(t, text)
	}
}

func TestSelector_ExplainsWhichTermFails(t *testing.T) {
	t.Parallel()
	fleet := []Labels{labeled("zone=eu"), labeled("zone=eu"), labeled("zone=us gpu=a100")}
	for _, c := range []struct {
		selector string
		nodes    []Labels
		text     string
		unmet    []string
	}{
		{"zone=eu, tpu", fleet, "no node matches tpu, zone=eu (of 3: 0 satisfy tpu, 2 satisfy zone=eu)", []string{"tpu"}},
		{"zone=eu, gpu", fleet, "no node matches gpu, zone=eu (of 3: 1 satisfy gpu, 2 satisfy zone=eu)", nil},
		{"zone=us, gpu", fleet, "1 of 3 nodes match gpu, zone=us", nil},
		{"", fleet, "all 3 nodes match", nil},
		{"zone", nil, "there is no node", []string{"zone"}},
	} {
		fit := parsed(t, c.selector).Explain(c.nodes)
		if fit.String() != c.text || !slices.Equal(fit.Unmet(), c.unmet) {
			t.Errorf("%q: %q, unmet %q; want %q, %q", c.selector, fit, fit.Unmet(), c.text, c.unmet)
		}
	}
	got := parsed(t, "zone=us,gpu").Explain(fleet)
	want := Fit{Nodes: 3, Match: 1, Terms: []TermFit{{"gpu", "gpu", 1}, {"zone=us", "zone", 1}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPreferences_AddWeightsOfThoseThatMatch(t *testing.T) {
	t.Parallel()
	var all Preferences
	for i, text := range []string{"zone=eu", "gpu", "!spot"} {
		p, err := ParsePreference(text, []int{1, 10, 100}[i])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for node, want := range map[string]int{
		"": 100, "spot": 0, "zone=eu spot": 1, "zone=us gpu": 110, "zone=eu gpu": 111, "zone=eu gpu spot": 11,
	} {
		if got := all.Sum(labeled(node)); got != want {
			t.Errorf("%q: %d, want %d", node, got, want)
		}
	}
	for _, c := range []struct {
		selector string
		weight   int
		want     string
	}{
		{"zone=eu", 0, "weight: 0 must be 1 to 100"},
		{"zone=eu", 101, "weight: 101 must be 1 to 100"},
		{"", 1, "select: must have a term, as zone=eu: all nodes satisfy a selector without one"},
		{"a in", 1, `select: term 1, "a in", at character 1: after in must come a list in parentheses, as in a in (a, b)`},
	} {
		if _, err := ParsePreference(c.selector, c.weight); err == nil || err.Error() != c.want {
			t.Errorf("%q, weight %d: %v, want %s", c.selector, c.weight, err, c.want)
		}
	}
}

// madeUp is a term that was made up, as the words that it consists of.
type madeUp struct {
	name, sign string
	values     []string
}

// text writes the term in one of several ways.
func (m madeUp) text(r *rand.Rand) string {
	some := func() string { return []string{"", " ", "\t", "  \n"}[r.IntN(4)] }
	switch {
	case m.sign == "":
		return some() + m.name + some()
	case m.sign == "!":
		return some() + "!" + some() + m.name + some()
	case strings.HasSuffix(m.sign, "in"):
		return some() + m.name + " " + some() + m.sign + some() + "(" +
			some() + strings.Join(m.values, some()+","+some()) + some() + ")" + some()
	}
	return some() + m.name + some() + m.sign + some() + m.values[0] + some()
}

// holds is what the term means, from the words of the documentation.
func (m madeUp) holds(values []string) bool {
	listed, lower, equal, higher := false, false, false, false
	for _, v := range values {
		listed = listed || slices.Contains(m.values, v)
		if len(m.values) == 0 {
			continue
		}
		a, notNumber := strconv.Atoi(v)
		b, notEither := strconv.Atoi(m.values[0])
		if notNumber == nil && notEither == nil {
			lower, equal, higher = lower || a < b, equal || a == b, higher || a > b
		}
	}
	switch m.sign {
	case "":
		return len(values) > 0
	case "!":
		return len(values) == 0
	case "=", "==", "in":
		return listed
	case "!=", "notin":
		return !listed
	case ">":
		return higher
	case ">=":
		return higher || equal
	case "<":
		return lower
	}
	return lower || equal
}

func TestSelector_AgreesWithAnOracle(t *testing.T) {
	t.Parallel()
	names, words := []string{"a", "b", "in", "x.y/z"}, []string{"eu", "us", "3", "20", "-1", "in"}
	signs := []string{"", "!", "=", "==", "!=", "in", "notin", ">", ">=", "<", "<="}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var terms []madeUp
		var texts []string
		for range 1 + r.IntN(3) {
			m := madeUp{name: names[r.IntN(len(names))], sign: signs[r.IntN(len(signs))]}
			for range 1 + r.IntN(3) {
				m.values = append(m.values, words[r.IntN(len(words))])
			}
			switch {
			case strings.ContainsAny(m.sign, "<>"):
				m.values = []string{words[2+r.IntN(3)]}
			case strings.Contains(m.sign, "="):
				m.values = m.values[:1]
			}
			terms, texts = append(terms, m), append(texts, m.text(r))
		}
		s := parsed(t, strings.Join(texts, ","))
		again := parsed(t, s.String())
		for range 4 {
			values := make(map[string][]string)
			for _, name := range names {
				for range r.IntN(3) {
					values[name] = append(values[name], words[r.IntN(len(words))])
				}
			}
			want := !slices.ContainsFunc(terms, func(m madeUp) bool { return !m.holds(values[m.name]) })
			labels := func(name string) []string { return values[name] }
			if s.Matches(labels) != want || again.Matches(labels) != want {
				t.Fatalf("seed %d: %q matches %v: %v; want %v", seed, texts, values, s.Matches(labels), want)
			}
			fit := s.Explain([]Labels{labels})
			if (fit.Match == 1) != want || (len(fit.Unmet()) == 0) != want {
				t.Fatalf("seed %d: %q with %v: %+v; want a match: %v", seed, texts, values, fit, want)
			}
		}
	}
}

// Whatever is read: no panic; a refusal that names the field, or a selector that its own text reads as the same.
func FuzzParseSelector(f *testing.F) {
	for _, text := range []string{
		"", "zone in (eu, us), gpu, !spot, mem>=16, id=x", "a==b,c!=d", "a notin(b)", "a=,b", "a>-1.5", "a<.5", ",", "!", "é",
		"a in (b,(c))", "a)(,b", "a in\x00(b)", "in in (in)", "a>=99999999999999999999.9",
	} {
		f.Add(text, "eu", "16")
	}
	f.Fuzz(func(t *testing.T, text, value, other string) {
		s, err := ParseSelector(text)
		var invalid *task.Error
		if err != nil {
			if !errors.As(err, &invalid) || invalid.Field != "select" || invalid.Message == "" {
				t.Fatalf("%q: %v names no field", text, err)
			}
			return
		}
		again, err := ParseSelector(s.String())
		if err != nil || again.String() != s.String() || again.IsZero() != s.IsZero() {
			t.Fatalf("%q is %q, and that is %q: %v", text, s, again, err)
		}
		for i, labels := range []Labels{
			func(string) []string { return nil },
			func(string) []string { return []string{value} },
			func(string) []string { return []string{value, other} },
		} {
			if s.Matches(labels) != again.Matches(labels) {
				t.Fatalf("%q and %q differ for node %d", text, s, i)
			}
			if fit := s.Explain([]Labels{labels}); (fit.Match == 1) != s.Matches(labels) || fmt.Sprint(fit) == "" {
				t.Fatalf("%q: %+v, which differs from Matches", text, fit)
			}
		}
	})
}
