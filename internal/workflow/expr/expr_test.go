package expr

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/task"
)

var scope = Scope{
	Params: map[string]Type{
		"day": String, "limit": Integer, "rate": Number, "full": Boolean, "files": List, "options": Object,
		"none": Integer, "lost": List, "the-day": String, "whole": Number,
	},
	Steps: []string{"list", "load-data", "report", "bad"},
	Prev:  "list",
}

var values = Values{
	Params: map[string]any{
		"day": "2026-11-25", "limit": json.Number("100"), "rate": 1.5, "full": true,
		"files": []any{"a", "b"}, "options": map[string]any{"z": 1, "a": []any{true, nil}}, "the-day": "Wed", "whole": 5,
	},
	Run: Run{
		ID: "etl-7", Workflow: "etl", Revision: 3, Attempt: 2,
		Created: time.Date(2026, 11, 25, 1, 2, 3, 4_000_000, time.FixedZone("", 3600)),
		Started: time.Date(2026, 11, 25, 0, 2, 4, 0, time.UTC),
	},
	Steps: map[string]Step{
		"list": {State: "succeeded", Attempt: 1, Task: "etl-7@list",
			Output: `{"files":[{"name":"a.csv","size":10},{"name":"b.csv","size":2.5}],"total":12.0,` +
				`"big":12345678901234567890,"exact":9007199254740993,"nothing":null,"ok":true,` +
				`"half":0.5,"tiny":1e-7,"thousand":1e3,"umlaut":"Grüße 世界 😀"}`},
		"load-data": {
			State: "failed", Error: "HTTP 503", Attempt: 4, Task: "etl-7@load-data", Output: "three lines <of> text",
		},
		"report": {State: "skipped"},
		"bad":    {State: "succeeded", Output: `[1,"x",true]`},
	},
}

func TestTemplate_Yields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		// literals
		{`"${{ 1 }}"`, `1`},
		{`"${{ 1.0 }}"`, `1`},
		{`"${{ 1.5e3 }}"`, `1500`},
		{`"${{ 1e21 }}"`, `1e+21`},
		{`"${{ -0.1 }}"`, `-0.1`},
		{`"${{ 3u }}"`, `3`},
		{`"${{ true }}"`, `true`},
		{`"${{ null }}"`, `null`},
		{`"${{ 'a' }}"`, `"a"`},
		{`"${{ \"<&>\\n\" }}"`, `"<&>\n"`},
		{`"${{ [1, 'a', null, [2.5]] }}"`, `[1,"a",null,[2.5]]`},
		{`"${{ {'b': 1, 'a': {'c': []}} }}"`, `{"a":{"c":[]},"b":1}`},
		{`"${{ {'a': {'b': {'c': 1}}}}}"`, `{"a":{"b":{"c":1}}}`},
		{`"${{ b'abc' }}"`, `"YWJj"`},
		{`"${{ '}}' + \"}}\" + r'\\' }}"`, `"}}}}\\"`},
		{`"${{ 1 // a comment with }}\n + 1 }}"`, `2`},
		{`"${{ '''it's }}''' }}"`, `"it's }}"`},
		// params and the run
		{`"${{ params.day }}"`, `"2026-11-25"`},
		{`"${{ params.limit }}"`, `100`},
		{`"${{ params.rate }}"`, `1.5`},
		{`"${{ params.full }}"`, `true`},
		{`"${{ params.files }}"`, `["a","b"]`},
		{`"${{ params.options }}"`, `{"a":[true,null],"z":1}`},
		{`"${{ params.options.z + 1 }}"`, `2`},
		{`"${{ params.none }}"`, `null`},
		{`"${{ params.lost }}"`, `null`},
		{`"${{ params['the-day'] }}"`, `"Wed"`},
		{`"${{ has(params.none) ? params.none : 7 }}"`, `7`},
		{`"${{ has(params.limit) && !has(params.lost) }}"`, `true`},
		{`"${{ params.none == null }}"`, `true`},
		{`"${{ run.id }}/${{ run.workflow }}/${{ run.revision }}/${{run.attempt}}"`, `"etl-7/etl/3/2"`},
		{`"${{ run.created }}"`, `"2026-11-25T00:02:03.004Z"`},
		{`"${{ run.tick == run.created }}"`, `true`},
		{`"${{ run.tick.split('T')[0] }}"`, `"2026-11-25"`},
		{`"${{ timestamp(run.started) - duration('24h') }}"`, `"2026-11-24T00:02:04.000Z"`},
		{`"${{ timestamp(run.started) - timestamp(run.created) }}"`, `"996ms"`},
		{`"${{ timestamp(run.started).getFullYear() }}"`, `2026`},
		{`"in ${{ duration('90m') }} after ${{ timestamp(run.started) }}"`, `"in 1h30m0s after 2026-11-25T00:02:04.000Z"`},
		// steps
		{`"${{ steps.list.state }} ${{ steps.list.attempt }} ${{ steps.list.task }}"`, `"succeeded 1 etl-7@list"`},
		{`"${{ steps.list.output.files[1].name }}"`, `"b.csv"`},
		{`"${{ prev.output.files.map(f, f.size) }}"`, `[10,2.5]`},
		{`"${{ steps['list'].output['total'] + 1 }}"`, `13`},
		{`"${{ steps.list.output.thousand }}"`, `1000`},
		{`"${{ steps.list.output.exact }}"`, `9007199254740993`},
		{`"${{ steps.list.output.big }}"`, `12345678901234567000`},
		{`"${{ steps.list.output.tiny }}"`, `1e-7`},
		{`"${{ steps.list.output.nothing }}"`, `null`},
		{`"${{ steps.list.output.umlaut }}"`, `"Grüße 世界 😀"`},
		{`"${{ size(steps.list.output.umlaut) }}"`, `10`},
		{`"${{ has(steps.list.output.files) && !has(steps.list.output.gone) }}"`, `true`},
		{`"${{ has(steps.report.output) }}"`, `false`},
		{`"${{ steps.report.output }}"`, `null`},
		{`"${{ steps[\"load-data\"].output }}"`, `"three lines <of> text"`},
		{`"${{ steps[\"load-data\"].error }}"`, `"HTTP 503"`},
		{`"${{ steps.list.output.files.filter(steps, steps.size > 3).map(s, s.name) }}"`, `["a.csv"]`},
		{`"${{ steps.list.output.map(k, k).join(' ') }}"`, `"big exact files half nothing ok thousand tiny total umlaut"`},
		{`"${{ {'c': 1, 'b': 2, 'a': 3}.map(k, k) }}"`, `["a","b","c"]`},
		{`"${{ steps.bad.output[1] }}"`, `"x"`},
		{`"${{ type(steps.bad.output[1]) == string }}"`, `true`},
		// numbers of both kinds
		{`"${{ 1 + 1.5 }}"`, `2.5`},
		{`"${{ params.limit * params.rate }}"`, `150`},
		{`"${{ steps.list.output.files.map(f, f.size * 2) }}"`, `[20,5]`},
		{`"${{ steps.list.output.files.map(f, f.size * 2.0) }}"`, `[20,5]`},
		{`"${{ [7 / 2, 7 / 2.0, 7 - 0.5, 7 % 2] }}"`, `[3,3.5,6.5,1]`},
		{`"${{ 2 < 2.5 && 3 == dyn(3.0) && 2.5 in [1, 2.5] }}"`, `true`},
		// functions
		{`"${{ 'a,b,,c'.split(',') }}"`, `["a","b","","c"]`},
		{`"${{ ['a', 'b'].join('-') }}"`, `"a-b"`},
		{`"${{ [1, 2.5, true].join(' ') }}"`, `"1 2.5 true"`},
		{`"${{ range(4) }}"`, `[0,1,2,3]`},
		{`"${{ range(0) }}"`, `[]`},
		{`"${{ params.whole / 2 }} ${{ params.whole == 5.0 && double(params.limit) != 2.5 }}"`, `"2.5 true"`},
		{`"${{ sum([1, 2]) }} ${{ sum([1, 2.5]) }} ${{ sum([]) }}"`, `"3 3.5 0"`},
		{`"${{ sum(steps.list.output.files.map(f, f.size)) }}"`, `12.5`},
		{`"${{ min([3, 1.5, 2]) }} ${{ max(['a', 'c', 'b']) }}"`, `"1.5 c"`},
		{`"${{ sum(range(100).filter(i, i % 2 == 0)) }}"`, `2450`},
		{`"${{ [1] + [2] }}"`, `[1,2]`},
		{`"${{ 'x' in {'x': 1} && !('y' in {'x': 1}) && 2 in [1, 2] && [1] != [2] }}"`, `true`},
		{`"${{ [1, 2].exists(x, x > 1) && [1, 2].all(x, x > 0) && [1, 2].exists_one(x, x > 1) }}"`, `true`},
		{`"${{ string(1) + 'a' + string(2.5) }} ${{ int('3') }}"`, `"1a2.5 3"`},
		{`"${{ 'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') }}"`, `true`},
		// text around, escapes
		{`"day=${{ params.day }}, limit=${{ params.limit }}."`, `"day=2026-11-25, limit=100."`},
		{`"${{ params.limit }}${{ params.limit }}"`, `"100100"`},
		{`" ${{ params.limit }}"`, `" 100"`},
		{`"${{ params.options }}\n"`, `"{\"a\":[true,null],\"z\":1}\n"`},
		{`"$${{ params.day }}"`, `"${{ params.day }}"`},
		{`"$$${{ x }} ${{ 1 }}"`, `"$${{ x }} 1"`},
		{`"世界 ${{ '世' }} 😀"`, `"世界 世 😀"`},
		{`"${ x } {{ y }} }} $"`, `"${ x } {{ y }} }} $"`},
		// JSON of any form
		{
			`{"b":["${{ 1 }}",{"c":"x"}],"a":"${{ params.files }}","n":1.50,"z":null}`,
			`{"a":["a","b"],"b":[1,{"c":"x"}],"n":1.50,"z":null}`,
		},
		{` { "b" : 1.0 , "a" : "<" } `, ` { "b" : 1.0 , "a" : "<" } `},
		{`[]`, `[]`},
		{`7`, `7`},
	} {
		in, want := c.in, c.want
		tmpl, err := ParseTemplate("payload", []byte(in), scope)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got, err := tmpl.Eval(values, ValueLimit)
		if err != nil || string(got) != want {
			t.Errorf("%s yields %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestParseTemplate_Refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`"${{ params.dya }}"`, `payload: character 5: there is no param dya; did you mean day?: there is day, files, `},
		{`"${{ 1 +\n  params.dya }}"`, `payload: line 2, column 3: there is no param dya`},
		{
			`"世界 ${{ parms.day }}"`,
			`payload: character 8: there is no parms; did you mean params?: the names are params, run, steps, prev`,
		},
		{`"${{ run.ticks }}"`, `there is no field run.ticks; did you mean tick?: there is attempt, created, `},
		{
			`"${{ steps.lst.output }}"`,
			`step lst cannot be read; did you mean list?: only steps that come before this one, by its needs or theirs, ` +
				`can be read: bad, list, load-data, report`,
		},
		{`"${{ steps.load-data.output }}"`, `step load cannot be read; did you mean steps["load-data"]?`},
		{
			`"${{ steps.list.out }}"`,
			`there is no field steps.list.out; did you mean output?: there is attempt, error, output, state, task`,
		},
		{
			`"${{ steps.list }}"`,
			`character 5: steps.list: write out what to read of it: there is attempt, error, output, state, task`,
		},
		{`"${{ steps }}"`, `steps: write out the step and what to read of it, as in steps.list.output`},
		{`"${{ params[run.id] }}"`, `params: write out what to read of it: there is day, `},
		{`"${{ size(params) }}"`, `params: write out what to read of it`},
		{`"${{ has(params['day']) }}"`, `has takes a name or a field after a dot, as in has(params.day)`},
		{`"${{ has(run.id) }}"`, `run.id always is there`},
		{`"${{ params.day }"`, `character 1: ${{ has no }} after it; write $${{ for the text itself`},
		{`"x ${{ 'a }}"`, `character 3: ${{ has no }} after it`},
		{`"${{ }}"`, `the expression is empty`},
		{`"${{ 1 + }}"`, `the expression ends too early`},
		{`"${{ 1 2 }}"`, `character 7: '2' does not belong here`},
		{`"${{ (1 }}"`, `the expression ends too early`},
		{`"${{ 1 # 2 }}"`, `cannot be read: is a quote or a bracket missing?`},
		{
			`"${{ params.limit + params.day }}"`,
			`character 18: + does not take (integer, string): string(x) makes a text, int(x) an integer`,
		},
		{`"${{ params.day == 1 }}"`, `== does not take (string, integer)`},
		{`"${{ params.files == null }}"`, `== does not take (list, null): has(x) says whether a param is given`},
		{`"${{ !params.day }}"`, `! does not take (string)`},
		{
			`"${{ params.day ? 1 : 2 }}"`,
			`two values of one type after it, not (string, integer, integer)`,
		},
		{`"${{ params.day.x }}"`, `string has no fields`},
		{`"${{ params.day.map(x, x) }}"`, `only lists and objects have elements to go through, not string`},
		{`"${{ splitt('a') }}"`, `there is no function splitt; did you mean split?`},
		{`"${{ now() }}"`, `there is no function now`},
		{`"${{ 'a'.split() }}"`, `split does not take`},
		{`"${{ 'a'.matches('b') }}"`, `matches is not offered`},
		{`"${{ params.whole == 5 }}"`, `== does not take (number, integer): write 5.0 for 5, or double(x)`},
		{`"${{ ` + strings.Repeat("[", 21) + strings.Repeat("]", 21) + ` }}"`, `macros are nested more than 20 deep`},
		{
			`"${{ ` + strings.Repeat("1+", 900) + `1 }}"`,
			`the expression is nested too deeply, or has too many operators in a row`,
		},
		{`"${{ [1].map(x) }}"`, `map is written as list.map(x, x * 2)`},
		{`"${{ timestamp(run.tick).getHours('Europe/Berlin') }}"`, `getHours takes no time zone: times are in UTC`},
		{`"${{ Foo{a: 1} }}"`, `Foo{...} is not offered`},
		{`"${{ @any }}"`, `cannot be read`},
		{`"${{ ` + strings.Repeat("1+", 1100) + `1 }}"`, `the expression has 2203 bytes, more than 2048`},
		{`"${{ ` + strings.Repeat("(", 400) + `1` + strings.Repeat(")", 400) + ` }}"`, `the expression is nested too deeply`},
		{`{"a":{"x-y":["", "${{ x }}"]}}`, `payload.a["x-y"][1]: character 5: there is no x`},
		{`{"${{ 1 }}":1}`, `the name "${{ 1 }}" has an expression: only values may have one`},
		{`{`, `payload: is not valid JSON`},
	} {
		in, want := c.in, c.want
		_, err := ParseTemplate("payload", []byte(in), scope)
		if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", in, err, want)
		}
	}
}

func TestParseTemplate_RefusesWhatTheScopeLacks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`"${{ params.day }}"`, `there is no param day: the workflow has no params`},
		{`"${{ prev.output }}"`, `prev is not known here: it stands for the only need of a step that has one need`},
		{
			`"${{ steps.a.output }}"`,
			`by its needs or theirs, can be read, and there is none`,
		},
	} {
		in, want := c.in, c.want
		if _, err := ParseTemplate("payload", []byte(in), Scope{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", in, err, want)
		}
	}
}

func TestParseTemplate_NamesAllFaults(t *testing.T) {
	t.Parallel()
	_, err := ParseTemplate("payload", []byte(`{"a":"${{ x }}","b":["${{ y }}"],"c":"${{ 1 }}","d":"${{"}`), scope)
	var e *task.Error
	if !errors.As(err, &e) || len(e.Others) != 2 {
		t.Fatalf("%v: not three faults", err)
	}
	fields := []string{e.Field, e.Others[0].Field, e.Others[1].Field}
	if want := []string{"payload.a", "payload.b[0]", "payload.d"}; !cmp.Equal(fields, want) {
		t.Errorf("faults are in %q, want %q", fields, want)
	}
}

func TestTemplate_EvalFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`{"a":"${{ steps.list.output.gone }}"}`, `payload.a: character 5: steps.list.output has no field "gone"`},
		{`"${{ steps.list.output.files[0].gone }}"`, `steps.list.output.files[0] has no field "gone"`},
		{`"${{ steps.list.output.gone.more }}"`, `steps.list.output has no field "gone"`},
		{`"${{ steps.list.output.files.map(f, f.x) }}"`, `f has no field "x"`},
		{`"${{ steps.list.output.files[9] }}"`, `the list has no element 9`},
		{`"${{ steps['load-data'].output.x }}"`,
			`character 5: steps["load-data"].output is text, and only JSON has fields such as "x"`},
		{`"${{ steps.list.output.ok + 1 }}"`, `+ does not take true or false and an integer`},
		{`"${{ params.none + 1 }}"`, `+ does not take null and an integer`},
		{`"${{ steps.list.output.ok - 1 }}"`, `- does not take true or false and an integer`},
		{`"${{ steps.list.output.ok < 1 }}"`, `an operator or a function does not take values of these types`},
		{`"${{ size(steps.list.output.ok) }}"`, `an operator or a function does not take values of these types`},
		{`"${{ steps.list.output.ok.map(x, x) }}"`, `only lists and objects have elements to go through, not true or false`},
		{`"${{ 1 / 0 }}"`, `a number is divided by zero`},
		{`"${{ 1.0 / 0.0 }}"`, `+Inf is no number in JSON`},
		{`"a ${{ params.none }}"`, `payload: character 6: the value is null, which is no text`},
		{`"${{ {1: 2} }}"`, `the names of an object must be texts, and 1 is an integer`},
		{`"${{ {dyn([1]): 2} }}"`, `the names of an object must be texts, and [1] is a list`},
		{`"${{ {b'a': 2} }}"`, `bytes cannot be a name in an object`},
		{`"${{ range(10001) }}"`, `an expression makes no list of more than 10000 elements`},
		{`"${{ range(-1) }}"`, `must not be negative`},
		{`"${{ range(10000) + [1] }}"`, `an expression makes no list of more than 10000 elements`},
		{`"${{ min([]) }}"`, `min: the list is empty`},
		{`"${{ max([1, 'a']) }}"`, `max: element 1 is a text, and one before it is an integer`},
		{`"${{ sum(steps.bad.output) }}"`, `sum: element 1 is a text, not a number`},
		{`"${{ [1, null].join(',') }}"`, `element 1: the value is null, which is no text`},
		{`"${{ steps.list.state.split('').map(c, int(c)) }}"`, `payload: character `},
		{`"${{ type(1) }}"`, `has no form in JSON`},
		{`"${{ range(10000).map(i, 'xxxxxxxxxx') }}"`, `the value is longer than 64 KiB as JSON`},
		{`"a${{ range(10000).map(i, 'xxxxxxxxxx') }}"`, `the value is longer than 64 KiB as JSON`},
		{`"${{ range(9000).map(i, 'xxxxxxxx').join('') }}"`, `the value is longer than 64 KiB as JSON`},
	} {
		in, want := c.in, c.want
		tmpl, err := ParseTemplate("payload", []byte(in), scope)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got, err := tmpl.Eval(values, ValueLimit)
		if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s yields %.100s, %v; want %s", in, got, err, want)
		}
	}
}

// A number as an argument of a program is its digits.
func TestTemplate_YieldsTextsOnlyWhereNothingElseIsRight(t *testing.T) {
	t.Parallel()
	texts := scope
	texts.Texts = true
	in := `{"command":["echo","${{ 20 + 6 }}","${{ 1 < 2 }}","${{ [1, 'a'] }}","n${{ 1.5 }}"],"n":1}`
	tmpl, err := ParseTemplate("payload", []byte(in), texts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Eval(values, ValueLimit)
	if want := `{"command":["echo","26","true","[1,\"a\"]","n1.5"],"n":1}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	tmpl, err = ParseTemplate("payload", []byte(`["${{ null }}"]`), texts)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tmpl.Eval(values, ValueLimit); err == nil || !strings.Contains(err.Error(), "is no text") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestTemplate_SaysWhatItReads(t *testing.T) {
	t.Parallel()
	tmpl, err := ParseTemplate("payload", []byte(`{"b":"${{ prev.output }}${{ steps.bad.state }}",`+
		`"a":["${{ params.day }}","x","${{ steps.list.error }}"],`+
		`"x-y":"${{ steps['load-data'].output.map(k, steps.bad.output) }}","e":"$${{ 1 }}"}`), scope)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"bad", "list", "load-data"}; !cmp.Equal(tmpl.Steps(), want) {
		t.Errorf("it reads steps %q, want %q", tmpl.Steps(), want)
	}
	want := []string{"payload.a[0]", "payload.a[2]", "payload.b", `payload["x-y"]`}
	if !cmp.Equal(tmpl.Paths(), want) {
		t.Errorf("it has expressions in %q, want %q", tmpl.Paths(), want)
	}
	for in, want := range map[string]bool{`{"a":["x"]}`: true, `"${{ 1 }}"`: false, `"$${{"`: false, `"}} {{ $"`: true} {
		tmpl, err := ParseTemplate("payload", []byte(in), scope)
		if err != nil || tmpl.Plain() != want {
			t.Errorf("%s: plain is not %v (%v)", in, want, err)
		}
	}
}

func TestCondition_Holds(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		`steps.list.output.total > 10`:                            true,
		`${{ steps.list.output.total > 100 }}`:                    false,
		" \n${{ params.full }}\n":                                 true,
		`params.full`:                                             true,
		`steps.list.output.ok`:                                    true,
		`steps["load-data"].state == 'failed' && run.attempt > 1`: true,
		`'${{' in ['a']`:                                          false,
	} {
		c, err := ParseCondition("when", in, scope)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, err := c.Holds(values); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestCondition_Fails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`params.day`, `when: must be true or false, and is of type string`},
		{`1 + 1`, `when: must be true or false, and is of type integer`},
		{`${{ params.full } }`, `when: character 1: ${{ has no }} after it`},
		{`${{ true }} && ${{ true }}`, `when: character 1: must be one expression, with ${{ }} around all of it or without`},
		{` ${{ params.fll }}`, `when: character 6: there is no param fll; did you mean full?`},
		{`true && ${{ true }}`, `when: character 9: must be one expression, with ${{ }} around all of it or without`},
		{``, `when: character 1: the expression is empty`},
		{`steps.list.output.total`, `when: must be true or false, and is an integer`},
		{`steps.list.output.gone`, `when: character 1: steps.list.output has no field "gone"`},
		{`steps.report.output`, `when: must be true or false, and is null`},
	} {
		in, want := c.in, c.want
		c, err := ParseCondition("when", in, scope)
		if err == nil {
			_, err = c.Holds(values)
		}
		if task.CodeOf(err) != task.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", in, err, want)
		}
	}
}
