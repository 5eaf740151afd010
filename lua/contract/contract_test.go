package contract

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const sound = `-- greet: says hello.
-- To everybody.
-- includes: number, clock
-- keys:
--   wheel  ZSET  what waits
--     and for how long
-- args:
--   member   member  who
--   claims   (name text, attempt attempt)*  what
-- reply:
--   now  time
-- refuses:
--   NOT_FOUND  nobody is there,
--     or nobody answers
-- repeat: harmless:
--   it says hello again
return { now }
`

func TestParse_ReadsEverySection(t *testing.T) {
	got, err := Parse("greet", sound)
	if err != nil {
		t.Fatal(err)
	}
	want := Contract{
		Name: "greet", Summary: "says hello.\nTo everybody.", Includes: []string{"number", "clock"},
		Keys: []Field{{Name: "wheel", Type: "ZSET", Remark: "what waits and for how long"}},
		Args: []Field{
			{Name: "member", Type: "member", Remark: "who"},
			{Name: "claims", List: true, Remark: "what", Group: []Field{{Name: "name", Type: "text"}, {Name: "attempt", Type: "attempt"}}},
		},
		Reply:    []Field{{Name: "now", Type: "time"}},
		Refusals: []Refusal{{"NOT_FOUND", "nobody is there, or nobody answers"}},
		Repeat:   "harmless: it says hello again", Body: "return { now }\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParse_NamesTheLineAtFault(t *testing.T) {
	for broken, want := range map[string]string{
		"return 1\n":    `greet.lua: the first line must be "-- greet: what it does"`,
		"-- hello: x\n": `greet.lua, line 1: "-- hello: x" must be "-- greet: what it does"`,
		"-- greet: x\n-- args:\n-- member member\n":       `greet.lua, line 3: "-- member member": lines of a section begin with three spaces`,
		"-- greet: x\n-- args:\n--   Member\n":            `greet.lua, line 3: "Member" must be "name  type  what it is"`,
		"-- greet: x\n-- args:\n--   a (b)*  c\n":         `greet.lua, line 3: "(b)*" must be "(name type, name type)*"`,
		"-- greet: x\n-- refuses:\n--   not_found  x\n":   `greet.lua, line 3: "not_found  x" must be "CODE  when"`,
		"-- greet: x\n-- keys: wheel\n":                   `greet.lua, line 2: section "keys": "wheel" must be a line of its own, or "nothing"`,
		"-- greet: x\n-- needs: wheel, arg wake\n":        `greet.lua, line 2: "wheel" must be "key name" or "arg name"`,
		"-- greet: x\n-- args: nothing\n-- args: again\n": `greet.lua, line 3: section "args" must occur once`,
	} {
		if _, err := Parse("greet", broken); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", broken, err, want)
		}
	}
}

func libraryOf(t *testing.T, files map[string]string) Library {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	l, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func script(includes, args, body string) string {
	return "-- greet: x\n-- includes: " + includes + "\n-- keys:\n--   wheel  ZSET\n-- args:\n" + args + "-- repeat: harmless\n" + body
}

func TestCompose_BindsNamesInOrder(t *testing.T) {
	l := libraryOf(t, map[string]string{
		"greet.lua":         script("b", "--   count  number\n--   now_at  time\n--   calm  flag\n--   entries  (k text, n number)*\n", "for k, n in entries() do redis.call('SET', log_key(k), LOG_LIMIT) end\n"),
		"include/a.lua":     "-- a: x\n-- includes: nothing\nlocal function one() return 1 end\n",
		"include/b.lua":     "-- b: x\n-- includes: a\nlocal function two() return one() + 1 end\n",
		"include/other.lua": "-- other: x\n-- includes: nothing\nlocal function other() end\n",
	})
	got, err := l.Compose(l.Scripts["greet"])
	if err != nil {
		t.Fatal(err)
	}
	want := `local wheel = KEYS[1]
local count, now_at, calm = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local function entries()
  local i = 2
  return function()
    i = i + 2
    if i <= #ARGV then
      return ARGV[i], tonumber(ARGV[i + 1])
    end
  end
end
local partition = string.match(KEYS[1], '^[^{]*{%d+}:')
local function log_key(ref)
  return partition .. 'log:' .. ref
end
local function one() return 1 end
local function two() return one() + 1 end
for k, n in entries() do redis.call('SET', log_key(k), 1000) end
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCompose_MakesKeysOfAQueue(t *testing.T) {
	l := libraryOf(t, map[string]string{"greet.lua": "-- greet: x\n-- keys:\n--   pending  LIST\nreturn { delivery_key(pending) }\n"})
	got, err := l.Compose(l.Scripts["greet"])
	if err != nil {
		t.Fatal(err)
	}
	want := `local pending = KEYS[1]
local asynq_queue = string.match(KEYS[1], '^[^{]*{[^}]*}:')
local function delivery_key(id)
  return asynq_queue .. 't:' .. id
end
return { delivery_key(pending) }
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCompose_RefusesInvalidHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"an include that is not there": {map[string]string{"greet.lua": script("nobody", "", "")}, `greet.lua: there is no include "nobody"`},
		"includes in a circle": {map[string]string{
			"greet.lua": script("a", "", ""), "include/a.lua": "-- a: x\n-- includes: b\n", "include/b.lua": "-- b: x\n-- includes: a\n",
		}, `greet.lua: include "a" includes itself by way of a, b`},
		"an include that needs what is not declared": {map[string]string{
			"greet.lua": script("a", "", ""), "include/a.lua": "-- a: x\n-- needs: key wheel, arg wake\n-- includes: nothing\n",
		}, `greet.lua: include "a" needs arg wake`},
		"an argument in place of a key": {map[string]string{
			"greet.lua": script("a", "--   lease  text\n", ""), "include/a.lua": "-- a: x\n-- needs: key lease, key wheel\n",
		}, `greet.lua: include "a" needs key lease`},
		"a key in place of an argument": {map[string]string{
			"greet.lua": script("a", "", ""), "include/a.lua": "-- a: x\n-- needs: arg wheel\n",
		}, `greet.lua: include "a" needs arg wheel`},
		"a first key outside a partition": {map[string]string{
			"greet.lua": "-- greet: x\n-- keys:\n--   nodes  HASH\n--   wheel  ZSET\nreturn { log_key('a') }\n",
		}, `greet.lua: log_key takes the partition from the first key, but "nodes" is not a key of a partition`},
		"a first key of any kind": {map[string]string{
			"greet.lua": "-- greet: x\n-- keys:\n--   zset  ZSET\nreturn { log_key('a') }\n",
		}, `greet.lua: log_key takes the partition from the first key, but "zset" is not a key of a partition`},
		"a key made by an include": {map[string]string{
			"greet.lua": "-- greet: x\n-- includes: a\n-- keys:\n--   nodes  HASH\n", "include/a.lua": "-- a: x\nlocal function all() return live_key('a') end\n",
		}, `greet.lua: live_key takes the partition from the first key, but "nodes" is not a key of a partition`},
		"a key made without any key": {map[string]string{
			"greet.lua": "-- greet: x\n-- keys:\nreturn { log_key('a') }\n",
		}, `greet.lua: log_key takes the partition from the first key, but the script has no keys`},
		"a key of a queue in a script of a partition": {map[string]string{
			"greet.lua": "-- greet: x\n-- keys:\n--   wheel  ZSET\nreturn { delivery_key('a') }\n",
		}, `greet.lua: delivery_key takes the queue from the first key, but "wheel" is not a key of a queue`},
		"a key of a partition in a script of a queue": {map[string]string{
			"greet.lua": "-- greet: x\n-- keys:\n--   pending  LIST\nreturn { delivery_key('a'), log_key('a') }\n",
		}, `greet.lua: log_key takes the partition from the first key, but "pending" is not a key of a partition`},
		"a list that is not last":     {map[string]string{"greet.lua": script("nothing", "--   a  text*\n--   b  text\n", "")}, "greet.lua: a: only the last argument can be a list"},
		"a type that is not there":    {map[string]string{"greet.lua": script("nothing", "--   a  colour\n", "")}, `greet.lua: a: there is no type "colour"`},
		"a channel that is not there": {map[string]string{"greet.lua": script("nothing", "--   news  channel\n", "")}, "greet.lua: news: there is no channel of that name in the table of keys"},
		"a list of a type not there":  {map[string]string{"greet.lua": script("nothing", "--   a  (b colour)*\n", "")}, `greet.lua: b: there is no type "colour"`},
	} {
		l := libraryOf(t, c.files)
		if _, err := l.Compose(l.Scripts["greet"]); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestCompose_RefusesNamesThatLuaUses(t *testing.T) {
	const (
		keyword = "%s: nothing can have this name, which is a keyword of Lua"
		global  = "%s: no key or argument can have this name, which Lua or the composed script uses"
	)
	for _, c := range []struct{ name, header, want string }{
		{"end", "-- keys:\n--   end  ZSET\n", keyword},
		{"until", "-- args:\n--   until  time\n", keyword},
		{"repeat", "-- args:\n--   repeat  text*\n", keyword},
		{"in", "-- args:\n--   claims  (member member, in text)*\n", keyword},
		{"not", "-- reply:\n--   not  flag\n", keyword},
		{"or", "-- reply:\n--   entries  (member text, or number)*\n", keyword},
		{"table", "-- keys:\n--   table  HASH\n", global},
		{"error", "-- args:\n--   error  text\n", global},
		{"now", "-- args:\n--   now  time\n", global},
		{"partition", "-- args:\n--   partition  number\n", global},
		{"asynq_queue", "-- args:\n--   asynq_queue  text\n", global},
		{"pairs", "-- args:\n--   pairs  (k text, n number)*\n", global},
		{"type", "-- args:\n--   claims  (member member, type text)*\n", global},
	} {
		l := libraryOf(t, map[string]string{"greet.lua": "-- greet: x\n" + c.header})
		want := "greet.lua: " + fmt.Sprintf(c.want, c.name)
		if _, err := l.Compose(l.Scripts["greet"]); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", c.header, err, want)
		}
	}
}

// A reply may be named after a global: it is no variable.
func TestCompose_AcceptsRepliesNamedAfterGlobals(t *testing.T) {
	l := libraryOf(t, map[string]string{"greet.lua": "-- greet: x\n-- reply:\n--   now   time\n--   next  time\nreturn { 1, 2 }\n"})
	if _, err := l.Compose(l.Scripts["greet"]); err != nil {
		t.Error(err)
	}
}

func TestGo_GivesArgumentsDistinctTypes(t *testing.T) {
	l := libraryOf(t, map[string]string{"greet.lua": script("nothing", "--   member  member\n--   run  run\n--   node  node\n--   events  channel\n", "return {}\n")})
	source, err := l.Go()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Wheel  WheelKey", "Member task.Ref", "Run    RunToken", "Node   NodeID", "Events EventsChannel"} {
		if !strings.Contains(string(source), want) {
			t.Errorf("the type has no field %q:\n%s", want, source)
		}
	}
}

func TestKeys_NamesAndPatternsAreUnique(t *testing.T) {
	names, patterns := map[string]bool{}, map[string]bool{}
	for _, k := range Keys {
		pattern := k.Type + " " + k.Pattern
		if names[k.Name] || patterns[pattern] {
			t.Errorf("%s (%s) is there twice", k.Name, k.Pattern)
		}
		names[k.Name], patterns[pattern] = true, true
		if k.Holds == "" {
			t.Errorf("%s: nothing says what it holds", k.Name)
		}
	}
}
