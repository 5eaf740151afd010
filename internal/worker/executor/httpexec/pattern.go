package httpexec

import (
	"context"
	"io"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/worker/executor"
)

const (
	patternLimit = 1000    // bytes
	programLimit = 1000    // steps of the compiled pattern, about: see steps
	breadthLimit = 200_000 // characters that the parser goes through: see breadth
)

// pattern is a regular expression of a payload. It is compiled when there is an answer to match.
//
// Its limits bound what a pattern costs whoever checks it to some 20 ms and 1 MB. To match the longest answer may still
// take most of a minute, so it ends with the attempt.
type pattern string

// validate checks a pattern without compiling it. Error: *executor.InvalidPayloadError.
func (p pattern) validate(field string) error {
	switch {
	case len(p) > patternLimit:
		return executor.Invalid(field, "is %d bytes long, at most %d are allowed", len(p), patternLimit)
	case breadth(string(p)) > breadthLimit:
		const text = "has too many classes of Unicode, or too wide ranges for (?i): use fewer \\p, or narrower ranges"
		return executor.Invalid(field, text)
	}
	parsed, err := syntax.Parse(string(p), syntax.Perl)
	if err != nil {
		return executor.Invalid(field, "is not a regular expression of Go: %v", err)
	}
	if n := steps(parsed); n > programLimit {
		const text = "has about %d steps once its repetitions are written out, at most %d are allowed: repeat less"
		return executor.Invalid(field, text, n, programLimit)
	}
	return nil
}

// steps estimates how many instructions an expression compiles to. A class counts more if it has many ranges.
func steps(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCapture:
		n = 2
	case syntax.OpCharClass:
		n += len(re.Rune) / 32
	}
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

var ignoresCase = regexp.MustCompile(`\(\?[A-Za-z-]*i`)

// breadth estimates how many characters the parser goes through. It copies the ranges of a class of Unicode whenever it
// joins classes, and looks at each character of a range where case is ignored. 1,000 bytes of that take it a second.
func breadth(text string) int {
	const (
		class = 10_000  // of Unicode, written \p
		last  = 0x1e943 // the last character with two cases
	)
	n := class * (strings.Count(text, `\p`) + strings.Count(text, `\P`))
	if !ignoresCase.MatchString(text) {
		return n
	}
	for at, r := range text {
		if r == '-' {
			low, _ := utf8.DecodeLastRuneInString(text[:at])
			n += max(int(min(firstOf(text[at+1:]), last)-low), 0)
		}
	}
	return n
}

// firstOf returns the character with which a part of a pattern begins, which may be written \x{1f600}.
func firstOf(text string) rune {
	if digits, found := strings.CutPrefix(text, `\x{`); found {
		digits, _, _ = strings.Cut(digits, "}")
		r, _ := strconv.ParseInt(digits, 16, 32)
		return rune(r)
	}
	r, _ := utf8.DecodeRuneInString(text)
	return r
}

// match reports whether a text matches a valid pattern, as any does an empty one. Error: the cause of ctx, if that ends
// meanwhile.
func (p pattern) match(ctx context.Context, text string) (bool, error) {
	if p == "" {
		return true, nil
	}
	compiled, err := regexp.Compile(string(p))
	if err != nil {
		return false, err
	}
	matches := compiled.MatchReader(&runes{ctx: ctx, rest: strings.NewReader(text)})
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return matches, nil
}

// runes is a text that ends with ctx.
type runes struct {
	ctx  context.Context //nolint:containedctx // MatchReader takes none
	rest *strings.Reader
	read int
}

// ReadRune looks at ctx now and then: that takes longer than a character does.
func (r *runes) ReadRune() (rune, int, error) {
	const interval = 256
	if r.read++; r.read%interval == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return r.rest.ReadRune()
}
