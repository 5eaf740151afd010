package test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/testkit"
)

const questionsPage = "../docs/questions.md"

// update has TestQuestions write what the commands print into the page.
var update = flag.Bool("update", false, "write the output of the commands into docs/questions.md")

// answer is a command of the page, and what the page says that it prints.
type answer struct {
	command string // without the prompt
	output  string
	from    int // where the block begins in the text of the page
	to      int
	tried   bool
}

var (
	commandBlock = regexp.MustCompile("(?m)^```\n\\$ (dtsctl .*)\n((?:.*\n)*?)```$")
	question     = regexp.MustCompile(`(?m)^## (\d+)\. .+$`)
)

// answersOf takes the commands of a page apart.
func answersOf(text string) (answers []*answer) {
	for _, m := range commandBlock.FindAllStringSubmatchIndex(text, -1) {
		answers = append(answers, &answer{
			command: text[m[2]:m[3]], output: text[m[4]:m[5]], from: m[0], to: m[1],
		})
	}
	return answers
}

// checkQuestions demands that the page has each question once, in order, and a command for each.
func checkQuestions(t *testing.T, text string, numbers []string) {
	t.Helper()
	heads := question.FindAllStringSubmatchIndex(text, -1)
	var found []string
	for i, head := range heads {
		number, end := text[head[2]:head[3]], len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		if len(answersOf(text[head[0]:end])) == 0 {
			t.Errorf("question %s has no command", number)
		}
		found = append(found, number)
	}
	if got, want := strings.Join(found, " "), strings.Join(numbers, " "); got != want {
		t.Errorf("the page answers the questions %s, want %s", got, want)
	}
	if blocks := strings.Count(text, "\n$ "); blocks != len(answersOf(text)) {
		t.Errorf("the page has %d commands, and only %d are in a block of their own", blocks, len(answersOf(text)))
	}
}

// rewrite returns the page with other commands and outputs in its blocks.
func rewrite(text string, answers []*answer) string {
	var b strings.Builder
	end := 0
	for _, a := range answers {
		fmt.Fprintf(&b, "%s```\n$ %s\n%s```", text[end:a.from], a.command, a.output)
		end = a.to
	}
	return b.String() + text[end:]
}

// shapes are what differs between two runs. The longest shape of a kind comes first.
var shapes = []struct{ pattern, name string }{
	{`(\w+@)?\d{8}T\d{6}(\.\d{3})?Z`, "${1}TICK"},
	{`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?( [+-]\d\d:\d\d)?`, "TIME"},
	{`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) TIME`, "TIME"},
	{`\b\d\d:\d\d\b`, "TIME"},
	{`\bvm-[a-z2-7]{8}\b`, "NODE"},
	{`\b[0-9A-HJKMNP-TV-Z]{26}\b`, "ID"},
	{`^pid +\d+$`, "PID"},
	{`\b(\d{1,3}\.){3}\d{1,3}(:\d+)?\b`, "ADDRESS"},
	{`(,|  ) ?for \d+ (second|minute|hour|day)s?`, ""}, // left out of what holds for less than a second
	{`\b(in )?\d+ (second|minute|hour|day|month|year)s?( ago)?\b`, "AGE"},
	{`(  |^)now(  |$)`, "  AGE  "},
	{`\b\d+(\.\d+)? (B|KiB|MiB|GiB|kB|MB|GB)`, "BYTES"},
	{`\b\d+(\.\d+)? (ms|%)`, "NUMBER"},
	{`\b(\d+(\.\d+)?(h|ms|µs|m|s))+\b`, "SPAN"},
	{`\b\d+(-\d+)?(, \d+(-\d+)?)+\b|\b\d+-\d+\b`, "NUMBERS"},
	{`  [.FMcro>wx?]+(  |$)`, "  STRIP  "},
	{`\b\d+\.\d+\b`, "NUMBER"},
	{`[ \t]+`, " "},
}

var compiledShapes = compileShapes()

func compileShapes() (all []*regexp.Regexp) {
	for _, s := range shapes {
		all = append(all, regexp.MustCompile(s.pattern))
	}
	return all
}

var digits = regexp.MustCompile(`\b\d+\b`)

// shapeOf returns a line with names in place of what differs between two runs.
func shapeOf(line string, d differs) string {
	for i, s := range shapes {
		line = compiledShapes[i].ReplaceAllString(line, s.name)
	}
	if d == numbers {
		line = digits.ReplaceAllString(line, "NUMBER")
	}
	return strings.TrimSpace(line)
}

// compare reports the lines of an output that have another shape than those of the page.
func (a *answer) compare(t *testing.T, got string, d differs) {
	t.Helper()
	if diff := cmp.Diff(shapesOf(a.output, d), shapesOf(got, d)); diff != "" {
		t.Errorf("$ %s\nprints something else than the page (-page +now):\n%s\nall that it prints:\n%s", a.command, diff, got)
	}
}

// shapesOf are the shapes of the lines of an output.
func shapesOf(output string, d differs) string {
	var lines []string
	for line := range strings.Lines(output) {
		lines = append(lines, shapeOf(strings.TrimSuffix(line, "\n"), d))
	}
	if d != nothing {
		slices.Sort(lines)
	}
	return strings.Join(lines, "\n")
}

// wordsOf splits a command at its blanks. What is between single quotes is one word.
func wordsOf(command string) (words []string, _ error) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	if strings.Count(command, "'")%2 == 1 {
		return nil, errors.New("a quote is not closed")
	}
	return words, nil
}

func readQuestions(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(questionsPage)
	testkit.Must(t, err)
	return string(text)
}
