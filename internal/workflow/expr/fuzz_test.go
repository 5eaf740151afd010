package expr

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

// What a template yields is valid JSON within the limit and the same each time, or its error is one for users.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		`${{ params.day }}`,
		`day=${{ params.limit * 2 }}, $${{ x }}`,
		`${{ steps.list.output.files.map(f, f.size) }}`,
		`${{ {'b': 1, 'a': {'c': [1.5, null, true]}}.map(k, k) }}`,
		`${{ range(100).filter(i, i % 3 == 0).map(i, string(i)).join(',') }}`,
		`${{ has(params.none) ? params.none : steps["load-data"].attempt }}`,
		`${{ '}}' }} {{ }} ${{ "a`,
		`${{`,
		`$`,
		`${{ r'\' }}`,
		`${{ sum(range(10)) / 3.0 }}`,
		`${{ 'a b'.split(' ') == ['a', 'b'] }}`,
		`${{ timestamp(run.tick) + duration('1h') }}`,
		`${{ [1].map(x, [x, x]).map(x, [x, x]) in [[1]] }}`,
		`${{ {1: 2, 'a': 3, true: 4} }}`,
		"${{ b'\\xff' }}",
		"${{ 1 // x\n + '''a'b''' }}",
		`${{ min([1, 2.5]) + max(params.files.map(f, size(f))) }}`,
		`${{ type(1) == int && 1 in {1: 2} }}`,
		`${{ 0.0 / 0.0 }}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := json.Marshal(map[string]string{"a": text})
		if err != nil {
			t.Skip()
		}
		tmpl, err := ParseTemplate("payload", raw, scope)
		if err != nil {
			if task.CodeOf(err) != task.CodeInvalid {
				t.Fatalf("%q: %v is no error for users", text, err)
			}
			return
		}
		first, err := tmpl.Eval(values, ValueLimit)
		again, errAgain := tmpl.Eval(values, ValueLimit)
		switch {
		case err != nil && task.CodeOf(err) != task.CodeInvalid:
			t.Fatalf("%q: %v is no error for users", text, err)
		case (err == nil) != (errAgain == nil), err != nil && err.Error() != errAgain.Error(), !bytes.Equal(first, again):
			t.Fatalf("%q: %s, %v, and then %s, %v", text, first, err, again, errAgain)
		case err == nil && !json.Valid(first):
			t.Fatalf("%q yields %s, which is no JSON", text, first)
		case err == nil && !tmpl.Plain() && len(first) > ValueLimit:
			t.Fatalf("%q yields %d bytes", text, len(first))
		}
		_ = CheckShell("payload", raw)
	})
}

// What is between two texts with no $ and no braces stays the same, whatever it is, if it is escaped.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"", "x", "${{ 1 }}", "$${{", "${{'}}'}}", "${{ \"\\\"}}\" }}", "${{ // }}\n}}", "${{{}}}", "${{r'\\'}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parts, wrong := split(s)
		if wrong != nil {
			if wrong.at < 0 || wrong.at > len(s) {
				t.Fatalf("%q: %v at byte %d", s, wrong.err, wrong.at)
			}
			return
		}
		for _, p := range parts {
			if p.isRef && s[p.at:p.at+len(p.text)] != p.text {
				t.Fatalf("%q: %q is not at byte %d", s, p.text, p.at)
			}
		}
	})
}

func TestEval_IsDeterministic(t *testing.T) {
	t.Parallel()
	text := `{"z":"${{ params.options }}","a":"${{ steps.list.output.map(k, k) }}",` +
		`"m":"${{ {'d': 1, 'c': 2, 'b': 3, 'a': 4}` +
		`.map(k, {k: [k], 'x': 1}) }}","t":"<${{ steps.list.output }}>"}`
	var first []byte
	for range 50 {
		tmpl, err := ParseTemplate("payload", []byte(text), scope)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		results := make([][]byte, 4)
		for i := range results {
			wg.Go(func() { results[i], _ = tmpl.Eval(values, ValueLimit) })
		}
		wg.Wait()
		for _, got := range results {
			if first == nil {
				first = got
			}
			if len(got) == 0 || !bytes.Equal(got, first) {
				t.Fatalf("yields %s, and before %s", got, first)
			}
		}
	}
}
