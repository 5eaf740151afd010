package expr

import (
	"testing"

	"cel.dev/cel-go/cel"
)

const typical = `{"url":"https://example.org/${{ params.day }}/load","body":{` +
	`"files":"${{ steps.list.output.files.map(f, f.name) }}","n":1}}`

func BenchmarkParseTemplate(b *testing.B) {
	for b.Loop() {
		if _, err := ParseTemplate("payload", []byte(typical), scope); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTemplate_Eval(b *testing.B) {
	tmpl, err := ParseTemplate("payload", []byte(typical), scope)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tmpl.Eval(values, ValueLimit); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseCondition(b *testing.B) {
	for b.Loop() {
		if _, err := ParseCondition("when", "params.limit > 10 && steps.list.state == 'succeeded'", scope); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCondition_Holds(b *testing.B) {
	c, err := ParseCondition("when", "params.limit > 10 && steps.list.state == 'succeeded'", scope)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.Holds(values); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewEnvironment(b *testing.B) {
	for b.Loop() {
		e := newEnvironment()
		if _, issues := e.Compile("1 + 1"); issues.Err() != nil {
			b.Fatal(issues.Err())
		}
	}
}

// An environment for each scope, which there is not, would cost this.
func BenchmarkExtendEnvironment(b *testing.B) {
	for b.Loop() {
		e, err := environment().Extend(cel.Variable("params.day", cel.StringType))
		if err != nil {
			b.Fatal(err)
		}
		if _, issues := e.Compile("1 + 1"); issues.Err() != nil {
			b.Fatal(issues.Err())
		}
	}
}
