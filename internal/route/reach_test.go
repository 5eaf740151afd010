package route

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What people write becomes one word, and is read from it again in its canonical form.
func TestSpec_IsOneWord(t *testing.T) {
	t.Parallel()
	cases := []struct {
		spec Spec
		word string
		read Spec
	}{
		{Spec{}, "", Spec{}},
		{Spec{Route: Route{By: Any}}, "", Spec{}},
		{Spec{Slots: 1}, "", Spec{}},
		{Spec{Slots: 4}, ";;;4", Spec{Slots: 4}},
		{Spec{Select: "gpu", Route: Route{By: Round}, Slots: 100}, "gpu;;round;100",
			Spec{Select: "gpu", Route: Route{By: Round}, Slots: 100}},
		{
			Spec{Select: " gpu, zone in (us, eu),mem>=16 "}, "gpu,mem}=16,zone~in~(eu,us);;",
			Spec{Select: "gpu,mem>=16,zone in (eu,us)"},
		},
		{
			Spec{Prefer: []Wish{{"zone=eu", 10}, {"!spot,mem<4", 1}}}, ";10*zone=eu|1*!spot,mem{4;",
			Spec{Prefer: []Wish{{"zone=eu", 10}, {"!spot,mem<4", 1}}},
		},
		{Spec{Route: Route{By: Round}}, ";;round", Spec{Route: Route{By: Round}}},
		{
			Spec{Route: Route{By: Failover, Order: []string{"b", "a"}}}, ";;failover:b,a",
			Spec{Route: Route{By: Failover, Order: []string{"b", "a"}}},
		},
		{Spec{Route: Route{By: Hash}, Key: "tenant-7"}, ";;hash:61:", Spec{Route: Route{By: Hash}, Key: "tenant-7"}},
		{
			Spec{Select: "a", Route: Route{By: Hash, Sticky: StickyRequire}, Key: "x"}, "a;;hash:7:require",
			Spec{Select: "a", Route: Route{By: Hash, Sticky: StickyRequire}, Key: "x"},
		},
		{
			Spec{Route: Route{By: Weighted, Load: Load{CPU: 0.5, Response: 0.25}}}, ";;weighted:0.5:0:0:0.25",
			Spec{Route: Route{By: Weighted, Load: Load{CPU: 0.5, Response: 0.25}}},
		},
	}
	for _, c := range cases {
		reach, err := c.spec.Reach()
		if err != nil || reach.String() != c.word {
			t.Errorf("%+v: %q, %v, want %q", c.spec, reach, err, c.word)
			continue
		}
		got, err := SpecOf(c.word, c.spec.Key)
		if diff := cmp.Diff(c.read, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", c.word, err, diff)
		}
		again, err := got.Reach()
		if err != nil || again.String() != c.word {
			t.Errorf("%+v, read from %q, becomes %q, %v", got, c.word, again, err)
		}
	}
}

func TestSpec_SaysWhatIsInvalid(t *testing.T) {
	t.Parallel()
	many := make([]Wish, PreferencesLimit+1)
	long := make([]Wish, PreferencesLimit)
	for i := range long {
		long[i] = Wish{"a=" + strings.Repeat("b", 400), 1}
	}
	cases := map[string]struct {
		spec Spec
		want string // the beginning of the error
	}{
		"slots":        {Spec{Slots: 101}, "slots: 101 must be 1 to 100"},
		"no slots":     {Spec{Slots: -1}, "slots: -1 must be 1 to 100"},
		"no selector":  {Spec{Select: "zone=a=b"}, "select: "},
		"a wish":       {Spec{Prefer: []Wish{{"gpu", 1}, {"gpu=(", 1}}}, "prefer[1].select: "},
		"its weight":   {Spec{Prefer: []Wish{{"gpu", 101}}}, "prefer[0].weight: "},
		"many wishes":  {Spec{Prefer: many}, "prefer: has 9 preferences, at most 8 are allowed"},
		"long wishes":  {Spec{Prefer: long}, "prefer: and select and route are "},
		"strategy":     {Spec{Route: Route{By: "nearest"}}, "route.by: "},
		"no key":       {Spec{Route: Route{By: Hash}}, "route.key: is missing"},
		"a needless":   {Spec{Route: Route{By: Round}, Key: "a"}, "route.key: must be left out"},
		"an odd key":   {Spec{Route: Route{By: Hash}, Key: "a b"}, "route.key: "},
		"an odd name":  {Spec{Route: Route{By: Failover, Order: []string{"a b"}}}, "route.order: "},
		"name:failure": {Spec{Route: Route{By: Failover, Order: []string{"a:b"}}}, "route.order: "},
	}
	for name, c := range cases {
		_, err := c.spec.Reach()
		if got := ""; err != nil {
			got = err.Error()
			if c.want == "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		} else if c.want != "" {
			t.Errorf("%s: no error, want %q", name, c.want)
		}
	}
}

// What somebody has written by hand is no reach, and does no harm.
func TestParseReach_RefusesOtherWords(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"a", "a;b", ";;nearest", ";;hash:a:", ";;hash", ";;round:3", ";;weighted:1:2", ";;weighted:1:2:x:0", ";0*a;", ";a;",
		"a=b=c;;", ";;failover", ";;failover:",
	} {
		if r, err := ParseReach(word); err == nil {
			t.Errorf("%q is read as %+v", word, r)
		}
	}
}
