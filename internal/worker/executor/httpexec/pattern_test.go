package httpexec

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// costly are patterns of up to 1,000 bytes that take long to parse, compile or match.
var costly = map[string]string{
	"nested repetitions":           `(?:(?:a?){31}){32}`,
	"repetitions in a row":         `(?s)^` + strings.Repeat(`(?:.?){1000}`, 80) + `$`,
	"an open repetition":           `(?:.*.*){500,}b`,
	"a large class, repeated":      `^\pL{100}$`,
	"ranges whose case is ignored": `(?i)` + strings.Repeat(`[C-𞥂]`, 100),
	"the same, escaped":            `(?si:` + strings.Repeat(`[C-\x{1e942}]`, 70) + `)`,
	"the same in one class":        `(?i)[` + strings.Repeat(`C-𞥂`, 100) + `]`,
	"classes of Unicode":           strings.Repeat(`\pL|`, 240),
	"the same, negated":            strings.Repeat(`[^\PL]|`, 120),
}

func TestPattern_RefusesWhatTakesTooMuch(t *testing.T) {
	t.Parallel()
	for name, p := range costly {
		var invalid *executor.InvalidPayloadError
		err := pattern(p).validate("expect.matches")
		if !errors.As(err, &invalid) || invalid.Field != "payload.expect.matches" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPattern_TakesWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$`, `[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`,
		`(?i)"status"\s*:\s*"(ok|done|peut-être)"`,
		`(?i)[а-яё]+ [a-zà-ÿ]+ 東京-大阪`, `^[\p{L}\p{N} ]+$`,
		`[\x{80}-\x{10ffff}]+ [\x{80}-\x{10ffff}]+ [^\x{0}-\x{ffff}]`, `.{0,200}ok.{0,200}`,
		`\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|$)){4}`,
	} {
		testkit.Must(t, pattern(p).validate("expect.matches"))
	}
}

// The numbers are several times what was measured.
func TestPattern_CostsLittleWithinItsLimits(t *testing.T) { //nolint:paralleltest // it measures
	within := []string{
		`(?s)(?:.*.*){160}b$`, strings.Repeat("a?", 333) + "b", `^[` + strings.Repeat(`\pL`, 20) + `]$`,
		strings.Repeat(`\pL|`, 20), `(?i)[C-\x{1e942}]`,
		`(?i)` + strings.Repeat("k", 990), strings.Repeat("(", 240) + "a" + strings.Repeat(")*", 240), `^\pL{23}$`,
	}
	for _, text := range within {
		testkit.Must(t, pattern(text).validate("f"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		compiled := regexp.MustCompile(text)
		compiled.MatchReader(strings.NewReader("aaaa"))
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
			t.Errorf("%.30q allocates %d bytes", text, got)
		}
		parsed, err := syntax.Parse(text, syntax.Perl)
		testkit.Must(t, err)
		program, err := syntax.Compile(parsed.Simplify())
		testkit.Must(t, err)
		if n := len(program.Inst); n > programLimit+2 {
			t.Errorf("%.30q has %d instructions", text, n)
		}
	}
}

func TestExecutor_StopsMatchingWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	url := serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("a", expectLimit))
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, executor.ErrTimeout)
	defer cancel()
	payload := executortest.JSON(t, object{"url": url, "expect": object{"matches": `(?:[a-b]?[a-c]?){166}c`}})
	start := time.Now()
	_, err := newExecutor(t).Execute(ctx, executortest.NewRecorder(payload).Attempt)
	if took := time.Since(start); !errors.Is(err, executor.ErrTimeout) || took > 10*time.Second { // whole, it takes thirty
		t.Errorf("ended after %s: %v", took, err)
	}
}

func TestPattern_MatchesAsRegexpDoes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ab\nc ü\xff", 200) + "end"
	for _, p := range []string{
		`end$`, `^ab`, `(?m)^c`, `\bc\b`, `ü.`, `^c`, `(?s)^.*end$`, `x`, ``, `\Bend`, `\x{fffd}ab`,
	} {
		got, err := pattern(p).match(t.Context(), text)
		if want := regexp.MustCompile(p).MatchString(text); err != nil || got != want {
			t.Errorf("%q: %t, %v; want %t", p, got, err, want)
		}
	}
}

func TestParseCall_BoundsWhatIsExpected(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]struct{ expect, message string }{
		"payload.expect.matches": {`{"matches": "` + strings.Repeat("a", 1001) + `"}`, "1001 bytes long, at most 1000"},
		"payload.expect.json.equals": {
			`{"json": {"path": "$", "equals": [` + strings.Repeat("[],", 6000) + `0]}}`, "18003 bytes long, at most 16384",
		},
		"payload.expect.json.path": {
			`{"json": {"path": "$.` + strings.Repeat("a", 200) + `", "equals": 1}}`, "202 bytes long, at most 200",
		},
	} {
		_, err := parseCall([]byte(`{"url": "http://a", "expect": ` + c.expect + `}`))
		var invalid *executor.InvalidPayloadError
		if !errors.As(err, &invalid) || invalid.Field != field || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
