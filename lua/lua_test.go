package lua_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua"
	"github.com/dts-sched/dts/lua/contract"
)

// Limits of the lines of a body and of an include. A longer one does more than one thing.
const (
	bodyLimit    = 80
	includeLimit = 80
)

func TestMain(m *testing.M) { testkit.Main(m) }

// load reads all scripts, once for all tests.
var load = sync.OnceValues(func() (contract.Library, error) { return contract.Load(os.DirFS(".")) })

func library(t *testing.T) contract.Library {
	t.Helper()
	l, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Scripts) == 0 || len(l.Includes) == 0 {
		t.Fatal("there are no scripts or no includes")
	}
	return l
}

func eachScript(t *testing.T, check func(t *testing.T, c contract.Contract)) {
	t.Helper()
	l := library(t)
	for _, name := range l.Names() {
		t.Run(name, func(t *testing.T) { check(t, l.Scripts[name]) })
	}
}

func TestHeader_HasEverySectionInOrder(t *testing.T) {
	section := regexp.MustCompile(`(?m)^-- (\w+):`)
	eachScript(t, func(t *testing.T, c contract.Contract) {
		text, err := os.ReadFile(c.Name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		var sections []string
		for _, m := range section.FindAllStringSubmatch(string(text), -1) {
			sections = append(sections, m[1])
		}
		if diff := cmp.Diff(append([]string{c.Name}, contract.Sections...), sections); diff != "" {
			t.Errorf("sections (-want +got):\n%s", diff)
		}
		if c.Repeat == "" {
			t.Error("repeat says nothing; write what a second run of the same call does")
		}
	})
}

func TestHeader_KeysHaveTheTypesOfTheTable(t *testing.T) {
	eachScript(t, func(t *testing.T, c contract.Contract) {
		for _, key := range c.Keys {
			kind, ok := contract.KindOf(key.Name)
			if !ok || kind.Type != key.Type {
				t.Errorf("key %s is %s, and %s in the table of keys", key.Name, key.Type, kind.Type)
			}
		}
	})
}

func TestHeader_EveryKeyAndArgumentIsUsed(t *testing.T) {
	eachScript(t, func(t *testing.T, c contract.Contract) {
		source := lua.ByName(c.Name).Source
		uses := words(withoutStrings(contract.WithoutComments(source)))
		for _, f := range slices.Concat(c.Keys, c.Args) {
			if n := uses[f.Name]; n < 2 && f.Remark != "only for its slot" { // the first one binds it
				t.Errorf("%s is declared and never used", f.Name)
			}
		}
		if regexp.MustCompile(`\b(KEYS|ARGV)\b`).MatchString(contract.WithoutComments(c.Body)) {
			t.Error("the body reads KEYS or ARGV; use the names of the header")
		}
	})
}

// The refusals are compared both ways, and Go's list comes from the same header.
func TestHeader_RefusalsAreThoseOfTheBody(t *testing.T) {
	literal := regexp.MustCompile(`\breturn refuse\('([^']*)'`)
	eachScript(t, func(t *testing.T, c contract.Contract) {
		want, got := map[string]bool{}, map[string]bool{}
		for _, r := range c.Refusals {
			want[r.Code] = true
		}
		source := lua.ByName(c.Name).Source
		code := strings.Replace(contract.WithoutComments(source), "local function refuse(", "", 1)
		for _, m := range literal.FindAllStringSubmatch(code, -1) {
			got[m[1]] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("refusals (-header +body):\n%s", diff)
		}
		if n, named := strings.Count(code, "refuse("), len(literal.FindAllString(code, -1)); n != named {
			t.Errorf("%d of %d refusals are not written return refuse('CODE', ...)", n-named, n)
		}
		known := lua.ByName(c.Name).Refusals
		if len(known) != len(want) {
			t.Errorf("Go knows the refusals %v, the header has %v", known, want)
		}
		for _, r := range known {
			if !want[string(r)] {
				t.Errorf("Go knows the refusal %s, which is not in the header", r)
			}
		}
	})
}

// reading are the commands that change nothing; any other counts as writing.
var reading = []string{
	"EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HLEN", "HMGET", "HSTRLEN", "LINDEX", "LLEN", "LPOS", "LRANGE", "MEMORY", "MGET", "PTTL", "SCARD",
	"SISMEMBER", "SMEMBERS", "STRLEN", "TIME", "TTL", "TYPE", "XLEN", "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT", "ZMSCORE",
	"ZRANGE", "ZRANK", "ZREVRANGE", "ZREVRANK", "ZSCORE",
}

var command = regexp.MustCompile(`redis\.call\('(\w+)'`)

// A script that writes must say what it does while Redis is full. One that works then begins with a write to a key that never expires, or whose
// expiry it sets anew, if Redis could refuse one of its own.
func TestHeader_SaysWhatAFullRedisMeans(t *testing.T) {
	writers := callOf(writingFunctions(t))
	expires, setsExpiry := regexp.MustCompile(`\bexpires\b|\bkept for\b`), regexp.MustCompile(`(?m)^redis\.call\('SET', (\w+), .*'PX'`)
	eachScript(t, func(t *testing.T, c contract.Contract) {
		source := lua.ByName(c.Name).Source
		free := !slices.ContainsFunc(command.FindAllStringSubmatch(source, -1), func(m []string) bool { return slices.Contains(contract.NeedMemory, m[1]) })
		if prefixed := strings.Contains(source, "redis.call('PERSIST', KEYS[1])"); prefixed != (c.Full == contract.FullWorks && !free) {
			t.Errorf("%q: it begins with a write that needs no memory: %t", c.Full, prefixed)
		}
		finally := strings.Contains(source, "local reply = body()") // which writes
		if writes := finally || writesAt(contract.WithoutComments(c.Body), writers) >= 0; writes == (c.Full == contract.FullReads) {
			t.Errorf("%q is wrong: it writes: %t", c.Full, writes)
		}
		own := setsExpiry.FindStringSubmatch(c.Body)
		setsOwn := own != nil && own[1] == c.Keys[0].Name
		if kind, _ := contract.KindOf(c.Keys[0].Name); c.Full == contract.FullWorks && expires.MatchString(kind.Holds) && !setsOwn {
			t.Errorf("its first key %s must not expire", kind.Name)
		}
	})
}

// Redis says which commands it refuses while it is full.
func TestNeedMemory_IsWhatRedisRefusesWhileItIsFull(t *testing.T) {
	ctx, db := t.Context(), redistest.Start(t).DB(t)
	infos, err := db.Command(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range commandsOfAllScripts(t) {
		if slices.Contains(infos[strings.ToLower(name)].Flags, "denyoom") {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, contract.NeedMemory); diff != "" {
		t.Errorf("commands that need memory (-Redis +contract):\n%s", diff)
	}
}

// commandsOfAllScripts are the commands that any script uses, sorted.
func commandsOfAllScripts(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, script := range library(t).Names() {
		for _, m := range command.FindAllStringSubmatch(lua.ByName(script).Source, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nothingDone matches a refusal because a command that writes has changed nothing.
var nothingDone = regexp.MustCompile(`if redis\.call\('\w+', [^\n]*\) == 0 then\n\s*return refuse\(`)

// A refusal does not undo what was written before it. The check is by place in the text: no refusal below the first
// write, whether the body does them or a function of an include.
func TestBody_WritesNothingBeforeTheLastRefusal(t *testing.T) {
	writers := callOf(writingFunctions(t))
	refusers := callOf(refusingFunctions(t))
	eachScript(t, func(t *testing.T, c contract.Contract) {
		code := nothingDone.ReplaceAllString(contract.WithoutComments(c.Body), "")
		if i := writesAt(code, writers); i >= 0 && refusers.MatchString(code[i:]) {
			line, _, _ := strings.Cut(code[i:], "\n")
			t.Errorf("there is a refusal below the first write:\n%s", line)
		}
	})
}

// writesAt is where code first writes, or -1.
func writesAt(code string, writers *regexp.Regexp) int {
	first := -1
	if at := writers.FindStringIndex(code); at != nil {
		first = at[0]
	}
	for _, m := range command.FindAllStringSubmatchIndex(code, -1) {
		if !slices.Contains(reading, code[m[2]:m[3]]) && (first < 0 || m[0] < first) {
			first = m[0]
		}
	}
	return first
}

func TestBody_FollowsTheRules(t *testing.T) {
	eachScript(t, func(t *testing.T, c contract.Contract) {
		checkLua(t, c.Body, bodyLimit)
		source := lua.ByName(c.Name).Source
		if n := strings.Count(contract.WithoutComments(source), "'TIME'"); n > 1 {
			t.Errorf("the time is read %d times; include clock, which reads it once", n)
		}
		if unknown := unknownFunctions(source); len(unknown) > 0 {
			t.Errorf("%v are neither Lua's, nor the script's, nor of an include", unknown)
		}
	})
}

func TestInclude_FollowsTheRules(t *testing.T) {
	for name, c := range library(t).Includes {
		t.Run(name, func(t *testing.T) { checkLua(t, c.Body, includeLimit) })
	}
}

// bare is a number made of a match that may find nothing. In the Lua of the embedded Redis that is no value, not nil. With
// a default behind the match it is one.
var bare = regexp.MustCompile(`tonumber\(string\.match\([^()]*(\([^()]*\)[^()]*)*\)\)`)

func checkLua(t *testing.T, body string, limit int) {
	t.Helper()
	if n := strings.Count(body, "\n"); n > limit {
		t.Errorf("it has %d lines, at most %d are allowed", n, limit)
	}
	code := contract.WithoutComments(body)
	if strings.Contains(code, "redis.pcall") {
		t.Error("redis.pcall hides errors, use redis.call")
	}
	if bare.MatchString(code) {
		t.Error("tonumber(string.match(...)) fails on the embedded Redis if nothing matches: write tonumber((string.match(...)))")
	}
	if n := strings.Count(code, "redis.call(") - len(command.FindAllString(code, -1)); n > 0 {
		t.Errorf("%d commands are not written redis.call('NAME', ...)", n)
	}
	if m := regexp.MustCompile(`'(dts|asynq):`).FindString(code); m != "" {
		t.Errorf("it spells out a key %s; the table of keys makes them", m)
	}
}

// A script carries what it needs and nothing else: of every include, at least one definition is used by the script or by
// another include of its own; and every function of an include is used by some script.
func TestInclude_IsUsedByEveryScriptThatCarriesIt(t *testing.T) {
	l := library(t)
	usedAnywhere := map[string]bool{}
	definitions, own := map[string][]string{}, map[string]map[string]int{}
	for _, include := range l.Includes {
		definitions[include.Name] = definitionsOf(include.Body)
		own[include.Name] = words(withoutStrings(contract.WithoutComments(include.Body)))
	}
	l.Constants = nil // so that the includes are in the scripts as they are in their files
	eachScript(t, func(t *testing.T, c contract.Contract) {
		source, err := l.Compose(c)
		if err != nil {
			t.Fatal(err)
		}
		uses := words(withoutStrings(contract.WithoutComments(source)))
		for _, include := range l.Includes {
			if !strings.Contains(source, strings.TrimLeft(include.Body, "\n")) {
				continue
			}
			used := false
			for _, name := range definitions[include.Name] {
				within := own[include.Name][name]
				if uses[name] > within {
					used, usedAnywhere[include.Name+"."+name] = true, true
				}
				if within > 1 { // used within the include
					usedAnywhere[include.Name+"."+name] = true
				}
			}
			if !used {
				t.Errorf("include %s is carried and not used", include.Name)
			}
		}
	})
	for _, include := range l.Includes {
		for _, name := range definitions[include.Name] {
			if !usedAnywhere[include.Name+"."+name] {
				t.Errorf("%s of include %s is used by no script", name, include.Name)
			}
		}
	}
}

func TestConstants_AreAllUsed(t *testing.T) {
	var all strings.Builder
	for _, contracts := range []map[string]contract.Contract{library(t).Scripts, library(t).Includes} {
		for _, c := range contracts {
			all.WriteString(contract.WithoutComments(c.Body))
		}
	}
	uses := words(all.String())
	for name, value := range contract.Constants {
		if uses[name] == 0 {
			t.Errorf("constant %s (%v) is used by no script", name, value)
		}
	}
}

func TestCompose_AddsOnlyWhatTheScriptUses(t *testing.T) {
	source := lua.ByName("release_lease").Source
	want := "local lease = KEYS[1]\nlocal fence, channel, message = ARGV[1], ARGV[2], ARGV[3]\n-- term_of returns the key for a fence.\nlocal function term_of"
	if !strings.HasPrefix(source, want) {
		t.Errorf("it begins with\n%s\nwant\n%s", source[:min(len(source), 200)], want)
	}
}

var (
	localFunction = regexp.MustCompile(`(?m)^\s*local function (\w+)\(`)
	localVariable = regexp.MustCompile(`(?m)^local (\w+(?:, \w+)*) =`)
	anyCall       = regexp.MustCompile(`(^|[^.:\w])([A-Za-z_]\w*)\(`)
)

// definitionsOf are the functions and variables that an include defines for others.
func definitionsOf(body string) []string {
	code := contract.WithoutComments(body)
	var names []string
	for _, m := range localFunction.FindAllStringSubmatch(code, -1) {
		names = append(names, m[1])
	}
	for _, m := range localVariable.FindAllStringSubmatch(code, -1) {
		names = append(names, strings.Split(m[1], ", ")...)
	}
	return names
}

// builtin are the functions and words of Lua that may stand before a bracket.
var builtin = strings.Fields("and or not if elseif while until return in function error ipairs pairs next pcall select tonumber tostring type unpack")

// unknownFunctions are the functions that code calls and that are neither Lua's nor its own.
func unknownFunctions(code string) []string {
	code = contract.WithoutComments(code)
	own := slices.Clone(builtin)
	for _, m := range localFunction.FindAllStringSubmatch(code, -1) {
		own = append(own, m[1])
	}
	var unknown []string
	for _, m := range anyCall.FindAllStringSubmatch(withoutStrings(code), -1) {
		if !slices.Contains(own, m[2]) {
			unknown = append(unknown, m[2])
		}
	}
	return unknown
}

// includedFunctions are the functions of the includes with their code, by name.
func includedFunctions(t *testing.T) map[string]string {
	t.Helper()
	bodies := map[string]string{}
	for _, include := range library(t).Includes {
		code := contract.WithoutComments(include.Body)
		starts := localFunction.FindAllStringSubmatchIndex(code, -1)
		for i, m := range starts {
			end := len(code)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			bodies[code[m[2]:m[3]]] = code[m[0]:end]
		}
	}
	return bodies
}

// refusingFunctions are refuse and the functions of includes that refuse.
func refusingFunctions(t *testing.T) []string {
	t.Helper()
	refusing := []string{"refuse"}
	for name, body := range includedFunctions(t) {
		if strings.Contains(body, "return refuse(") {
			refusing = append(refusing, name)
		}
	}
	if len(refusing) < 2 {
		t.Fatal("no include refuses any more")
	}
	return refusing
}

// callOf matches a call of one of the functions.
func callOf(functions []string) *regexp.Regexp {
	return regexp.MustCompile(`\b(` + strings.Join(functions, "|") + `)\(`)
}

// writingFunctions are those of the includes that write, by themselves or through one another.
func writingFunctions(t *testing.T) []string {
	t.Helper()
	bodies := includedFunctions(t)
	writing := []string{"announce"}
	for known := 0; known < len(writing); { // until one pass finds no more
		known = len(writing)
		writers := callOf(writing)
		for name, body := range bodies {
			_, inner, _ := strings.Cut(body, "\n")
			if !slices.Contains(writing, name) && writesAt(inner, writers) >= 0 {
				writing = append(writing, name)
			}
		}
	}
	if !slices.Contains(writing, "apply_overlap") || slices.Contains(writing, "other_leader") {
		t.Fatalf("the functions that write were found to be %v", writing)
	}
	slices.Sort(writing)
	return writing
}

// words counts the words of code.
func words(code string) map[string]int {
	count := map[string]int{}
	for _, word := range strings.FieldsFunc(code, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		count[word]++
	}
	return count
}

var literalString = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`)

func withoutStrings(code string) string { return literalString.ReplaceAllString(code, "''") }
