package contract

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Library is all scripts and includes, parsed, and the constants that they name.
type Library struct {
	Scripts   map[string]Contract
	Includes  map[string]Contract
	Constants map[string]any
}

// Load parses the scripts in the root of files and the includes in its folder include. Errors name the file and the line.
func Load(files fs.FS) (Library, error) {
	scripts, err := parseAll(files, "*.lua")
	if err != nil {
		return Library{}, err
	}
	includes, err := parseAll(files, "include/*.lua")
	if err != nil {
		return Library{}, err
	}
	return Library{Scripts: scripts, Includes: includes, Constants: Constants}, nil
}

func parseAll(files fs.FS, pattern string) (map[string]Contract, error) {
	paths, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", pattern, err)
	}
	parsed := make(map[string]Contract, len(paths))
	for _, path := range paths {
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		script := strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], ".lua")
		if parsed[script], err = Parse(script, string(text)); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

// Names returns the names of the scripts, sorted.
func (l Library) Names() []string { return slices.Sorted(maps.Keys(l.Scripts)) }

// Compose returns the source of a script as Redis runs it: keys and arguments as local variables, a write that needs no memory if it
// must work while Redis is full, the keys and kinds of keys that the code uses, the includes, each after those it includes itself,
// and the body; constants are replaced by their values. Errors: the header names an
// include or a type that does not exist, an include lacks what it needs, or includes include each other.
func (l Library) Compose(c Contract) (string, error) {
	includes, err := l.resolve(c)
	if err != nil {
		return "", fmt.Errorf("%s.lua: %w", c.Name, err)
	}
	var code strings.Builder
	for _, include := range includes {
		code.WriteString(strings.TrimLeft(include.Body, "\n"))
	}
	code.WriteString(withFinally(strings.TrimLeft(c.Body, "\n"), includes))
	bound, err := bindings(c, code.String())
	if err != nil {
		return "", fmt.Errorf("%s.lua: %w", c.Name, err)
	}
	kinds := keysIn(code.String())
	beginnings, err := beginningsFor(c, kinds)
	if err != nil {
		return "", fmt.Errorf("%s.lua: %w", c.Name, err)
	}
	return bound + freeFirstWrite(c, code.String()) + beginnings + luaOf(kinds) + withConstants(code.String(), l.Constants), nil
}

// NeedMemory are the commands of the scripts that Redis refuses while it is full.
var NeedMemory = []string{"HINCRBY", "HSET", "HSETNX", "INCR", "INCRBY", "LPUSH", "LSET", "RPUSH", "RPUSHX", "SADD", "SET", "XADD", "ZADD"}

// freeFirstWrite returns the write that a script begins with which works while Redis is full, unless none of its own writes needs memory.
// The script's first key never expires.
func freeFirstWrite(c Contract, code string) string {
	needs := slices.ContainsFunc(NeedMemory, func(command string) bool { return strings.Contains(code, "redis.call('"+command+"'") })
	if c.Full != FullWorks || !needs {
		return ""
	}
	return "redis.call('PERSIST', KEYS[1])\n"
}

// withFinally returns the body of a script, followed by what its includes do after it. A refusal is a table with the field
// err.
func withFinally(body string, includes []Contract) string {
	var calls strings.Builder
	for _, include := range includes {
		if include.Finally != "" {
			calls.WriteString("  " + include.Finally + "\n")
		}
	}
	if calls.Len() == 0 {
		return body
	}
	return "local function body()\n" + strings.TrimRight(body, "\n") + "\nend\nlocal reply = body()\nif not reply.err then\n" +
		calls.String() + "end\nreturn reply\n"
}

// resolve returns the includes of a script and, in turn, their includes: each once, after those it includes itself.
func (l Library) resolve(c Contract) ([]Contract, error) {
	var order []Contract
	done := map[string]bool{}
	var add func(names []string, path []string) error
	add = func(names, path []string) error {
		for _, include := range names {
			if slices.Contains(path, include) {
				return fmt.Errorf("include %q includes itself by way of %s", include, strings.Join(path, ", "))
			}
			if done[include] {
				continue
			}
			inner, ok := l.Includes[include]
			if !ok {
				return fmt.Errorf("there is no include %q", include)
			}
			if err := add(inner.Includes, append(path, include)); err != nil {
				return err
			}
			if err := inner.satisfiedBy(c); err != nil {
				return err
			}
			done[include] = true
			order = append(order, inner)
		}
		return nil
	}
	return order, add(c.Includes, nil)
}

// satisfiedBy returns an error unless a script declares the keys and arguments that the include c needs.
func (c Contract) satisfiedBy(script Contract) error {
	var missing []string
	for _, need := range c.Needs {
		fields := script.Args
		if need.Key {
			fields = script.Keys
		}
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == need.Name }) {
			missing = append(missing, need.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("include %q needs %s", c.Name, strings.Join(missing, ", "))
	}
	return nil
}

// bindings returns the Lua code that binds keys and arguments to local variables, for the code that uses them.
func bindings(c Contract, code string) (string, error) {
	if err := checkNames(c); err != nil {
		return "", err
	}
	var b strings.Builder
	bind(&b, c.Keys, func(i int, _ Field) string { return fmt.Sprintf("KEYS[%d]", i+1) })
	single := c.Args
	var list *Field
	if n := len(c.Args); n > 0 && c.Args[n-1].List {
		single, list = c.Args[:n-1], &c.Args[n-1]
	}
	for _, f := range slices.Concat(c.Keys, single) {
		if f.List {
			return "", fmt.Errorf("%s: only the last argument can be a list", f.Name)
		}
	}
	for _, f := range single {
		if _, err := typeOf(f); err != nil {
			return "", err
		}
	}
	bind(&b, single, func(i int, f Field) string { return fmt.Sprintf(Types[f.Type].Lua, fmt.Sprintf("ARGV[%d]", i+1)) })
	if list != nil {
		if err := iterator(&b, *list, len(single)); err != nil {
			return "", err
		}
		if strings.Contains(code, firstsName(*list)+"()") {
			firsts(&b, *list, len(single))
		}
	}
	return b.String(), nil
}

// bind writes one statement that binds all fields; value is the Lua expression for a field.
func bind(b *strings.Builder, fields []Field, value func(int, Field) string) {
	if len(fields) == 0 {
		return
	}
	var names, values []string
	for i, f := range fields {
		names, values = append(names, f.Name), append(values, value(i, f))
	}
	fmt.Fprintf(b, "local %s = %s\n", strings.Join(names, ", "), strings.Join(values, ", "))
}

// iterator writes the Lua function that iterates over the list f of arguments; before is how many arguments precede it.
func iterator(b *strings.Builder, f Field, before int) error {
	group := f.Elements()
	var values []string
	for i, part := range group {
		t, err := typeOf(part)
		if err != nil {
			return err
		}
		place := "ARGV[i]"
		if i > 0 {
			place = fmt.Sprintf("ARGV[i + %d]", i)
		}
		values = append(values, fmt.Sprintf(t.Lua, place))
	}
	fmt.Fprintf(b, "local function %s()\n  local i = %d\n  return function()\n    i = i + %d\n    if i <= #ARGV then\n      return %s\n    end\n  end\nend\n",
		f.Name, before+1-len(group), len(group), strings.Join(values, ", "))
	return nil
}

// firstsName is the name of the Lua function that returns the first value of each element of a list of arguments.
func firstsName(f Field) string { return f.Elements()[0].Name + "s_of_" + f.Name }

// firsts writes the Lua function that returns the first value of each element of the list f of arguments; before is how many arguments
// precede it.
func firsts(b *strings.Builder, f Field, before int) {
	const function = `local function %s()
  local list = {}
  for i = %d, #ARGV, %d do
    list[#list + 1] = ARGV[i]
  end
  return list
end
`
	fmt.Fprintf(b, function, firstsName(f), before+1, len(f.Elements()))
}

// Elements returns the fields of one element of a list.
func (f Field) Elements() []Field {
	if len(f.Group) > 0 {
		return f.Group
	}
	return []Field{{Name: f.Name, Type: f.Type}}
}

var (
	quotedOrUpper = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"|\b[A-Z][A-Z_]*[A-Z]\b`)
)

// keySuffix ends the names of keys, and of the functions that make keys, in Lua.
const keySuffix = "_key"

// isInName reports whether a character can be in the name of a key.
func isInName(r rune) bool { return r == '_' || r >= 'a' && r <= 'z' }

// keysIn returns the kinds of keys that code names, in the order of Keys.
func keysIn(code string) []Kind {
	named := map[string]bool{}
	for before, rest, found := strings.Cut(code, keySuffix); found; before, rest, found = strings.Cut(rest, keySuffix) {
		name := before[1+strings.LastIndexFunc(before, func(r rune) bool { return !isInName(r) }):]
		named[name] = named[name] || rest == "" || !isInName(rune(rest[0]))
	}
	var kinds []Kind
	for _, k := range Keys {
		if named[k.Name] && (k.InPartition() || k.InAsynqQueue()) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// luaOf returns the Lua functions and variables of the keys of the kinds.
func luaOf(kinds []Kind) string {
	var b strings.Builder
	for _, k := range kinds {
		b.WriteString(k.luaKey())
	}
	return b.String()
}

// beginningsFor returns the Lua code that binds the beginning of the keys of the kinds: the prefix of the first key's
// partition or queue. It returns an error if the first key belongs to none, or if there is no key.
func beginningsFor(c Contract, kinds []Kind) (string, error) {
	var b strings.Builder
	for _, owner := range []struct {
		word, code string
		has        func(Kind) bool
	}{
		{"partition", "local partition = string.match(KEYS[1], '^[^{]*{%d+}:')\n", Kind.InPartition},
		{"queue", "local asynq_queue = string.match(KEYS[1], '^[^{]*{[^}]*}:')\n", Kind.InAsynqQueue},
	} {
		i := slices.IndexFunc(kinds, owner.has)
		if i < 0 {
			continue
		}
		if len(c.Keys) == 0 {
			return "", fmt.Errorf("%s_key takes the %s from the first key, but the script has no keys", kinds[i].Name, owner.word)
		}
		first := c.Keys[0].Name
		if kind, ok := KindOf(first); !ok || !owner.has(kind) {
			return "", fmt.Errorf("%s_key takes the %s from the first key, but %q is not a key of a %s", kinds[i].Name, owner.word, first, owner.word)
		}
		b.WriteString(owner.code)
	}
	return b.String(), nil
}

// withConstants returns code with the values of the constants that it names. Lua allows a script 200 local variables, so
// constants are none. A node composes scripts while it starts, and regular expressions are slow: they see only the lines
// that may name a constant.
func withConstants(code string, constants map[string]any) string {
	may := slices.Sorted(maps.Keys(constants))
	may = slices.DeleteFunc(may, func(constant string) bool { return !strings.Contains(code, constant) })
	var b strings.Builder
	for line := range strings.Lines(code) {
		if slices.ContainsFunc(may, func(constant string) bool { return strings.Contains(line, constant) }) {
			line = quotedOrUpper.ReplaceAllStringFunc(line, func(word string) string {
				switch value := constants[word].(type) {
				case nil:
					return word
				case string:
					return "'" + value + "'"
				default:
					return fmt.Sprint(value)
				}
			})
		}
		b.WriteString(line)
	}
	return b.String()
}

var comment = regexp.MustCompile(`(?m)(^|\s)--.*$`)

// WithoutComments returns Lua code without its comments.
func WithoutComments(code string) string { return comment.ReplaceAllString(code, "") }
