package lua_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/lua"
)

// The body of a script is this many lines at most; what is longer is two transitions.
const bodyLimit = 80

// contract is what a script's header says.
type contract struct {
	title    string
	sections []string            // in the order they stand
	inline   map[string]string   // what follows the section's name on the same line
	lines    map[string][]string // the indented lines below it
}

var (
	sectionLine = regexp.MustCompile(`^-- (keys|args|reply|refuses|repeat):(?: (.*))?$`)
	entryLine   = regexp.MustCompile(`^(\d+) (\w+)\s+(\S.*)$`)
	keyType     = regexp.MustCompile(`^(STRING|HASH|LIST|SET|ZSET|STREAM)\b`)
	codeLine    = regexp.MustCompile(`^([A-Z]+) +\S`)
)

// script reads a script and takes its header from its body.
func script(t *testing.T, name string) (contract, string) {
	t.Helper()
	text, err := os.ReadFile(name + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	c := contract{inline: map[string]string{}, lines: map[string][]string{}}
	var body strings.Builder
	inHeader, section := true, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		inHeader = inHeader && strings.HasPrefix(line, "--")
		switch m := sectionLine.FindStringSubmatch(line); {
		case !inHeader:
			body.WriteString(line + "\n")
		case m != nil:
			section = m[1]
			c.sections = append(c.sections, section)
			c.inline[section] = m[2]
		case section == "":
			c.title += strings.TrimPrefix(line, "-- ") + "\n"
		default:
			if !strings.HasPrefix(line, "--   ") {
				t.Errorf("%q: what belongs to a section is indented by three spaces", line)
			}
			c.lines[section] = append(c.lines[section], strings.TrimPrefix(line, "--   "))
		}
	}
	return c, body.String()
}

func eachScript(t *testing.T, check func(t *testing.T, name string, c contract, body string)) {
	t.Helper()
	if len(lua.Names()) == 0 {
		t.Fatal("there is no script")
	}
	for _, name := range lua.Names() {
		t.Run(name, func(t *testing.T) {
			c, body := script(t, name)
			check(t, name, c, body)
		})
	}
}

func TestHeaderHasEverySectionInOrder(t *testing.T) {
	eachScript(t, func(t *testing.T, name string, c contract, _ string) {
		if !regexp.MustCompile(`^` + name + `: \S`).MatchString(c.title) {
			t.Errorf("it begins with %q, want `-- %s: what the transition is`", c.title, name)
		}
		if diff := cmp.Diff([]string{"keys", "args", "reply", "refuses", "repeat"}, c.sections); diff != "" {
			t.Errorf("sections (-want +got):\n%s", diff)
		}
		for _, section := range c.sections {
			if c.inline[section] == "" && len(c.lines[section]) == 0 {
				t.Errorf("%s says nothing; write `-- %s: nothing` if that is so", section, section)
			}
		}
		for _, line := range c.lines["keys"] {
			if m := entryLine.FindStringSubmatch(line); m != nil && !keyType.MatchString(m[3]) {
				t.Errorf("key %q does not begin with its Redis type", line)
			}
		}
	})
}

func TestEveryKeyAndArgumentIsDocumentedAndUsed(t *testing.T) {
	eachScript(t, func(t *testing.T, _ string, c contract, body string) {
		code := withoutComments(body)
		checkInputs(t, "KEYS", documented(t, c, "keys"), code)
		checkInputs(t, "ARGV", documented(t, c, "args"), code)
		for _, name := range namedInputs(code) {
			if n := len(regexp.MustCompile(`\b`+name+`\b`).FindAllString(withoutStrings(code), -1)); n < 2 {
				t.Errorf("%s is named and never used", name)
			}
		}
	})
}

// documented is how many entries a section lists; they are numbered from 1.
func documented(t *testing.T, c contract, section string) int {
	t.Helper()
	n := 0
	for _, line := range c.lines[section] {
		if strings.HasPrefix(line, " ") { // the entry above goes on
			continue
		}
		n++
		if m := entryLine.FindStringSubmatch(line); m == nil || m[1] != strconv.Itoa(n) {
			t.Errorf("%s: %q should read `%d name  what it is`", section, line, n)
		}
	}
	return n
}

// checkInputs compares the places of KEYS or ARGV that the code reads, one by one or all by unpack, with
// how many there should be.
func checkInputs(t *testing.T, table string, want int, code string) {
	t.Helper()
	read := map[int]bool{}
	for _, m := range regexp.MustCompile(table+`\[(\d+)\]`).FindAllStringSubmatch(code, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		read[n] = true
	}
	if m := regexp.MustCompile(`local ([\w\s,]+?)\s*=\s*unpack\(` + table + `\)`).FindStringSubmatch(code); m != nil {
		for i := range strings.Split(m[1], ",") {
			read[i+1] = true
		}
	}
	for n := 1; n <= want; n++ {
		if !read[n] {
			t.Errorf("%s[%d] is documented and never read", table, n)
		}
	}
	for n := range read {
		if n > want {
			t.Errorf("%s[%d] is read and not documented", table, n)
		}
	}
}

// namedInputs are the locals that are made of KEYS and ARGV.
func namedInputs(code string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`local ([\w\s,]+?)\s*=\s*[^\n]*\n?[^\n]*\b(?:KEYS|ARGV)\b`).FindAllStringSubmatch(code, -1) {
		for name := range strings.SplitSeq(m[1], ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

func TestRefusalsAreThoseTheHeaderLists(t *testing.T) {
	eachScript(t, func(t *testing.T, name string, c contract, body string) {
		want := map[string]bool{}
		for _, line := range c.lines["refuses"] {
			if m := codeLine.FindStringSubmatch(line); m != nil {
				want[m[1]] = true
			} else if !strings.HasPrefix(line, " ") {
				t.Errorf("refuses: %q should read `CODE  when`", line)
			}
		}
		if len(want) == 0 && c.inline["refuses"] != "nothing" {
			t.Error("no refusal is listed; write `-- refuses: nothing` if that is so")
		}
		got := map[string]bool{}
		code := withoutComments(body)
		for _, m := range regexp.MustCompile(`\brefuse\('([^']*)'`).FindAllStringSubmatch(code, -1) {
			got[m[1]] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("refusals (-header +body):\n%s", diff)
		}
		if n, named := strings.Count(code, "refuse("), strings.Count(code, "return refuse('"); n != named {
			t.Errorf("%d of %d refusals are not written return refuse('CODE', ...)", n-named, n)
		}
		listed := lua.Load(name).Refusals
		slices.Sort(listed)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), listed); diff != "" {
			t.Errorf("what Load reads from the header (-want +got):\n%s", diff)
		}
	})
}

// reading are the commands that change nothing; any other counts as writing.
var reading = []string{
	"EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HLEN", "HMGET", "LINDEX", "LLEN", "LRANGE", "MGET", "PTTL", "SCARD",
	"SISMEMBER", "SMEMBERS", "STRLEN", "TIME", "TTL", "TYPE", "XLEN", "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT", "ZMSCORE",
	"ZRANGE", "ZRANK", "ZREVRANGE", "ZREVRANK", "ZSCORE",
}

var call = regexp.MustCompile(`redis\.call\('(\w+)'`)

// A refusal does not undo what was written before it. The check is by place in the text: no refusal below
// the first write.
func TestNothingIsWrittenBeforeTheLastRefusal(t *testing.T) {
	writers := regexp.MustCompile(`\b(` + strings.Join(preludeWriters(t), "|") + `)\(`)
	eachScript(t, func(t *testing.T, _ string, _ contract, body string) {
		code := withoutComments(body)
		if i := writesAt(code, writers); i >= 0 && strings.Contains(code[i:], "refuse(") {
			t.Errorf("there is a refusal below the first write:\n%s", lineAt(code, i))
		}
	})
}

// writesAt is where code first writes, or -1.
func writesAt(code string, writers *regexp.Regexp) int {
	first := -1
	if at := writers.FindStringIndex(code); at != nil {
		first = at[0]
	}
	for _, m := range call.FindAllStringSubmatchIndex(code, -1) {
		if !slices.Contains(reading, code[m[2]:m[3]]) && (first < 0 || m[0] < first) {
			first = m[0]
		}
	}
	return first
}

func lineAt(code string, i int) string {
	line, _, _ := strings.Cut(code[i:], "\n")
	return line
}

func TestBodiesKeepToTheCommonWays(t *testing.T) {
	prelude := preludeFunctions(t)
	eachScript(t, func(t *testing.T, _ string, _ contract, body string) {
		if n := strings.Count(body, "\n"); n > bodyLimit {
			t.Errorf("the body has %d lines, at most %d are allowed", n, bodyLimit)
		}
		code := withoutComments(body)
		if strings.Contains(code, "redis.pcall") {
			t.Error("redis.pcall hides errors, use redis.call")
		}
		if n := strings.Count(code, "redis.call(") - len(call.FindAllString(code, -1)); n > 0 {
			t.Errorf("%d commands are not written redis.call('NAME', ...)", n)
		}
		if strings.Count(code, "now_ms()") > 1 || strings.Contains(code, "'TIME'") {
			t.Error("the time is read by now_ms(), once")
		}
		for _, name := range calledFunctions(code) {
			if _, ok := prelude[name]; !ok {
				t.Errorf("%s() is neither Lua's, nor the script's, nor the prelude's", name)
			}
		}
	})
}

func TestEveryPreludeFunctionIsUsed(t *testing.T) {
	for name := range preludeFunctions(t) {
		uses := 0
		for _, s := range lua.Names() {
			uses += strings.Count(lua.Load(s).Source, name+"(")
		}
		if uses <= len(lua.Names()) { // each source holds its definition once
			t.Errorf("%s() is used by no script", name)
		}
	}
}

var (
	localFunction = regexp.MustCompile(`(?m)^\s*local function (\w+)\(`)
	anyCall       = regexp.MustCompile(`(^|[^.:\w])([A-Za-z_]\w*)\(`)
)

// luas are the functions and words of Lua that may stand before a bracket.
var luas = strings.Fields("and or not if elseif while until return in function ipairs pairs next select tonumber tostring type unpack")

// calledFunctions are the functions that code calls and that are neither Lua's nor its own.
func calledFunctions(code string) []string {
	own := slices.Clone(luas)
	for _, m := range localFunction.FindAllStringSubmatch(code, -1) {
		own = append(own, m[1])
	}
	var called []string
	for _, m := range anyCall.FindAllStringSubmatch(withoutStrings(code), -1) {
		if !slices.Contains(own, m[2]) {
			called = append(called, m[2])
		}
	}
	return called
}

// preludeFunctions are the functions that stand in front of every script, with their text.
func preludeFunctions(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("prelude.lua")
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]string{}
	code := withoutComments(string(text))
	starts := localFunction.FindAllStringSubmatchIndex(code, -1)
	for i, m := range starts {
		end := len(code)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		functions[code[m[2]:m[3]]] = code[m[0]:end]
	}
	if len(functions) == 0 {
		t.Fatal("the prelude has no function")
	}
	return functions
}

// preludeWriters are those that change something.
func preludeWriters(t *testing.T) []string {
	t.Helper()
	never := regexp.MustCompile(`$^`)
	var names []string
	for name, text := range preludeFunctions(t) {
		if writesAt(text, never) >= 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no function of the prelude writes; the one that publishes should be found")
	}
	slices.Sort(names)
	return names
}

func withoutComments(code string) string {
	return regexp.MustCompile(`(?m)(^|\s)--.*$`).ReplaceAllString(code, "")
}

func withoutStrings(code string) string {
	return regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`).ReplaceAllString(code, "''")
}
