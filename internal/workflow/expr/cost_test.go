package expr

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Without bounds, most of these take minutes or gigabytes.
func TestEval_StopsBombs(t *testing.T) {
	const work, elements, long = "takes too much work", "makes no list of more than", "makes no text of more than"
	large := strings.Repeat(`["x",1,{"a":2}],`, 40_000)
	v := Values{Steps: map[string]Step{
		"big": {Output: "[" + strings.TrimSuffix(large, ",") + "]"}, "text": {Output: strings.Repeat("x", 1<<20)},
	}}
	s := Scope{Steps: []string{"big", "text"}}
	for name, bomb := range map[string]struct{ text, want string }{
		"quadratic":        {`range(10000).map(i, sum(range(10000).map(j, i * j)))`, work},
		"quadratic exists": {`range(10000).all(i, range(10000).exists(j, i + j == -1) || true)`, work},
		"cubic":            {`range(1000).map(a, range(1000).map(b, range(1000).map(c, a + b + c)))`, work},
		"doubled text":     {`size([` + double("'0123456789abcdef'", "x + x + x + x", 20) + `])`, long},
		"doubled list":     {`size([` + double("[1, 2, 3, 4]", "x + x + x + x", 20) + `])`, elements},
		"compared with itself": {
			double("[1]", "[x, x]", 80) + `.map(y, [y, y, y, y, y, y] == [y, y, y, y, y, y])`, work,
		},
		"searched in itself":       {double("[1]", "[x, x]", 90) + `.map(y, 1 in [y])`, work},
		"written":                  {double("[1]", "[x, x, x, x]", 20), "longer than 64 KiB"},
		"written as text":          {double("[1]", "[x, x, x, x]", 20) + `.join('')`, work},
		"comparisons of an output": {`range(10000).filter(i, steps.big.output == steps.big.output)`, work},
		"searches in an output":    {`range(10000).filter(i, 7 in steps.big.output)`, work},
		"lengths of a text":        {`range(10000).map(i, size(steps.text.output))`, work},
		"conversions of a text":    {`range(10000).map(i, string(steps.text.output))`, work},
		"joins that fail":          {double("[1]", "[x, x]", 40) + `.map(y, range(9).exists(i, [y].join('') == ''))`, work},
		"additions that fail":      {`range(10000).all(i, range(10000).exists(j, dyn([1]) + dyn(1) == [j]))`, work},
		"copies of a text":         {`range(10000).map(i, steps.text.output).join('')`, work},
		"splits of a text":         {`range(10000).map(i, steps.text.output.split('y'))`, work},
		"all characters":           {`steps.text.output.split('')`, elements},
		"an output's elements":     {`steps.big.output.map(x, 1)`, elements},
		"lists of lists":           {`range(10000).map(i, range(10000))`, work},
		"objects":                  {`range(10000).map(i, {'a': i, 'b': {'c': [i, i, {'d': i}]}})`, work},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := ParseTemplate("p", fmt.Appendf(nil, "%q", "${{ "+bomb.text+" }}"), s)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			out, err := tmpl.Eval(v, ValueLimit)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%v and %d MiB: %v", took.Round(time.Millisecond), allocated, err)
			if err == nil || !strings.Contains(err.Error(), bomb.want) {
				t.Errorf("yields %.100s, %v; want an error with %q", out, err, bomb.want)
			}
			if took > time.Minute { // some 100 ms on a machine with nothing else to do
				t.Errorf("took %v", took)
			}
			if allocated > 512 {
				t.Errorf("allocated %d MiB", allocated)
			}
		})
	}
}

// double applies an expression of x to a value again and again.
func double(start, next string, times int) string {
	return "[" + start + "]" + strings.Repeat(".map(x, "+next+")", times)
}

func TestEval_AffordsUsualWork(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 5000 {
		files = append(files, fmt.Sprintf(`{"name":"f%d","size":%d}`, i, i))
	}
	v := Values{Steps: map[string]Step{"list": {Output: "[" + strings.Join(files, ",") + "]"}}}
	for _, text := range []string{
		`sum(steps.list.output.filter(f, f.name.endsWith('7') && f.size > 10).map(f, f.size * 2))`,
		`steps.list.output.map(f, f.name).join(',')`,
		`sum(range(10000).map(i, i * i))`,
		`steps.list.output == steps.list.output`,
	} {
		tmpl, err := ParseTemplate("p", fmt.Appendf(nil, "%q", "${{ "+text+" }}"), Scope{Steps: []string{"list"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tmpl.Eval(v, ValueLimit); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What is put or planned is compiled by the same nodes that lead, so that must not take long either.
func TestParse_TakesNoLongTime(t *testing.T) {
	const room = LengthLimit - 100
	for name, text := range map[string]string{
		"sum":              "1" + strings.Repeat("+1", room/2),
		"concatenations":   "'a'" + strings.Repeat("+'a'", room/4),
		"alternatives":     "true" + strings.Repeat("||true", room/6),
		"choices":          strings.Repeat("true?1:", 200) + "1",
		"brackets":         strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200),
		"lists":            strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100),
		"list":             "[1" + strings.Repeat(",1", room/2) + "]",
		"wide list":        "[" + strings.Repeat("[[1]],", room/6) + "]",
		"nested in macros": double("[1]", strings.Repeat("[", 20)+"x"+strings.Repeat("]", 20), 35),
		"objects":          strings.Repeat("{'a':", 100) + "1" + strings.Repeat("}", 100),
		"chain":            double("[1]", "[x,x]", 100),
		"chain of any":     double("dyn([1])", "x", 150),
		"inside":           strings.Repeat("[1].map(x,", 100) + "1" + strings.Repeat(")", 100),
		"existence":        "[1].exists(x,x==1)" + strings.Repeat("&&[1].exists(x,x==1)", 90),
		"many macros":      "[1]" + strings.Repeat(".map(x,x)", room/9),
		"fields":           "steps.a.output" + strings.Repeat(".a", 100),
		"names":            "[run.id" + strings.Repeat(",run.id", room/8) + "]",
		"errors":           strings.Repeat("x+(", room/3),
		"quotes":           strings.Repeat("'", room),
		"no operators":     strings.Repeat("1 ", room/2),
		"dashes":           strings.Repeat("-", room) + "1",
	} {
		began := time.Now()
		_, err := ParseTemplate("p", fmt.Appendf(nil, "%q", "${{ "+text+" }}"), Scope{Steps: []string{"a"}})
		took := time.Since(began)
		t.Logf("%s: %v, %.150v", name, took.Round(100*time.Microsecond), err)
		if took > time.Minute { // some 10 ms on a machine with nothing else to do
			t.Errorf("%s takes %v to parse", name, took)
		}
	}
}
