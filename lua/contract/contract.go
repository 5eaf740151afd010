// Package contract parses the headers of the Lua scripts and generates both sides of a call from them: the source that
// Redis runs, and the Go types with which Go calls it.
//
// The header of a script is its contract. It is a run of comment lines:
//
//	-- name: what the script does.
//	-- includes: files of lua/include whose functions the body uses
//	-- keys:
//	--   wheel  ZSET  what is special about the key in this script
//	-- args:
//	--   member   member  what it holds
//	--   claims   (member member, attempt attempt)*  a list of groups, which must be the last argument
//	-- reply:
//	--   now  time  what it holds
//	-- refuses:
//	--   NOT_FOUND  when it refuses with this code
//	-- repeat: what a second run of the same call does
//	-- full: works, refused or reads
//
// The last section says what happens while Redis has no memory left: the script works, as what it does ends work or makes room; it is
// refused; or it only reads. Redis refuses the first write of a script if it may need memory, and none that comes after another one. So
// the source of a script that works begins with a write that needs none and changes nothing, if one of its own writes may need memory.
//
// A key has the name of its kind in [Keys]; the types of arguments and replies are those of [Types]. In the body, every key
// and argument is a local variable of the same name, and a list is an iterator: "for member, attempt in claims() do". The
// body returns one table with the fields of the reply in order, an empty one for "reply: nothing". No name may be a
// keyword of Lua, and no key or argument may hide what code uses, such as string or now.
//
// The header of an include has a title, its own includes and, if it uses keys or arguments of the script, and if something
// must be done after the body:
//
//	-- needs: key wheel, arg wake
//	-- finally: a call of one of its functions, which is run after the body, unless the body refused
package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Contract is the header of a script or of an include.
type Contract struct {
	Name     string
	Summary  string   // the title, without the name
	Includes []string // includes that the body uses, in the order of the header
	Needs    []Need   // of an include: keys and arguments that a script with it must declare
	Finally  string   // of an include: a call that runs after the body
	Keys     []Field
	Args     []Field
	Reply    []Field
	Refusals []Refusal
	Repeat   string // what a second run of the same call does
	Full     string // what it does while Redis has no memory left: FullWorks, FullRefused or FullReads; "" for an include
	Body     string // everything after the header
}

// Field is a key, an argument or a part of a reply.
type Field struct {
	Name   string
	Type   string  // a name in Types; of a key its Redis type
	List   bool    // any number of values of Type, or of Group
	Group  []Field // the fields of one element of a list of groups
	Remark string
}

// Need is a key or an argument that an include uses.
type Need struct {
	Name string
	Key  bool // it must be a key; else an argument
}

func (n Need) String() string {
	if n.Key {
		return "key " + n.Name
	}
	return "arg " + n.Name
}

// Refusal is a code with which a script may refuse, and when it does so.
type Refusal struct{ Code, When string }

// The values of Contract.Full.
const (
	FullWorks   = "works"
	FullRefused = "refused"
	FullReads   = "reads"
)

// Sections are the sections of a script's header below its title, in their order.
var Sections = []string{"includes", "keys", "args", "reply", "refuses", "repeat", "full"}

var (
	titleLine   = regexp.MustCompile(`^-- (\w+): (.*)$`)
	sectionLine = regexp.MustCompile(`^-- (includes|needs|finally|keys|args|reply|refuses|repeat|full):(?: (.*))?$`)
	fieldLine   = regexp.MustCompile(`^(\w+)\s+(\w+\*?|\([^)]*\)\*)(?:\s+(\S.*))?$`)
	refusalLine = regexp.MustCompile(`^([A-Z_]+)\s+(\S.*)$`)
	name        = regexp.MustCompile(`^[a-z]\w*$`)
)

// Parse parses the text of a script or an include; script is its name. Its error names the invalid line.
func Parse(script, text string) (Contract, error) {
	header, body := split(text)
	p := parser{contract: Contract{Name: script, Body: body}}
	for i, line := range header {
		if err := p.line(line); err != nil {
			return Contract{}, fmt.Errorf("%s.lua, line %d: %w", script, i+1, err)
		}
	}
	if p.contract.Summary == "" {
		return Contract{}, fmt.Errorf("%s.lua: the first line must be \"-- %s: what it does\"", script, script)
	}
	p.contract.Summary = strings.TrimSpace(p.contract.Summary)
	return p.contract, nil
}

// split separates the comment lines at the beginning from the rest.
func split(text string) ([]string, string) {
	var header []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		header = append(header, strings.TrimRight(line, "\n"))
		text = text[len(line):]
	}
	return header, text
}

type parser struct {
	contract Contract
	section  string
	seen     []string
	open     string // the beginning of an entry whose bracket is not closed yet
}

func (p *parser) line(line string) error {
	if m := sectionLine.FindStringSubmatch(line); m != nil {
		return p.begin(m[1], strings.TrimSpace(m[2]))
	}
	if p.section == "" {
		return p.title(line)
	}
	entry, ok := strings.CutPrefix(line, "--   ")
	if !ok {
		return fmt.Errorf("%q: lines of a section begin with three spaces", line)
	}
	if p.open != "" {
		entry = p.open + " " + strings.TrimSpace(entry)
	}
	if p.open = ""; strings.Count(entry, "(") > strings.Count(entry, ")") && p.inFields() {
		p.open = entry
		return nil
	}
	return p.entry(entry)
}

// inFields reports whether the present section lists fields, whose groups may go over several lines.
func (p *parser) inFields() bool { return p.section == "args" || p.section == "reply" }

func (p *parser) title(line string) error {
	m := titleLine.FindStringSubmatch(line)
	if p.contract.Summary == "" {
		if m == nil || m[1] != p.contract.Name {
			return fmt.Errorf("%q must be \"-- %s: what it does\"", line, p.contract.Name)
		}
		line = "-- " + m[2]
	}
	p.contract.Summary += strings.TrimPrefix(strings.TrimPrefix(line, "--"), " ") + "\n"
	return nil
}

// begin starts a section; rest is the rest of its line.
func (p *parser) begin(section, rest string) error {
	if slices.Contains(p.seen, section) {
		return fmt.Errorf("section %q must occur once", section)
	}
	p.section = section
	p.seen = append(p.seen, section)
	switch {
	case section == "includes":
		p.contract.Includes = words(rest)
	case section == "needs":
		return addNeeds(&p.contract.Needs, rest)
	case section == "finally":
		p.contract.Finally = rest
	case section == "repeat":
		p.contract.Repeat = rest
	case section == "full":
		p.contract.Full = rest
		if !slices.Contains([]string{FullWorks, FullRefused, FullReads}, rest) {
			return fmt.Errorf("section %q: %q must be works, refused or reads", section, rest)
		}
	case rest != "" && rest != "nothing":
		return fmt.Errorf("section %q: %q must be a line of its own, or \"nothing\"", section, rest)
	}
	return nil
}

func words(list string) []string {
	if list == "nothing" {
		return nil
	}
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// entry parses a line of a section. A line that is indented further continues the entry above.
func (p *parser) entry(entry string) error {
	c := &p.contract
	switch p.section {
	case "includes":
		c.Includes = append(c.Includes, words(entry)...)
	case "needs":
		return addNeeds(&c.Needs, entry)
	case "repeat":
		c.Repeat += " " + strings.TrimSpace(entry)
	case "refuses":
		return addRefusal(&c.Refusals, entry)
	case "keys":
		return addField(&c.Keys, entry)
	case "args":
		return addField(&c.Args, entry)
	case "reply":
		return addField(&c.Reply, entry)
	}
	return nil
}

func addNeeds(all *[]Need, list string) error {
	for entry := range strings.SplitSeq(strings.TrimSuffix(list, ","), ",") {
		pair := strings.Fields(entry)
		if len(pair) != 2 || pair[0] != "key" && pair[0] != "arg" || !name.MatchString(pair[1]) {
			return fmt.Errorf("%q must be \"key name\" or \"arg name\"", strings.TrimSpace(entry))
		}
		*all = append(*all, Need{Name: pair[1], Key: pair[0] == "key"})
	}
	return nil
}

func addRefusal(all *[]Refusal, entry string) error {
	if strings.HasPrefix(entry, " ") && len(*all) > 0 {
		(*all)[len(*all)-1].When += " " + strings.TrimSpace(entry)
		return nil
	}
	m := refusalLine.FindStringSubmatch(entry)
	if m == nil {
		return fmt.Errorf("%q must be \"CODE  when\"", entry)
	}
	*all = append(*all, Refusal{Code: m[1], When: m[2]})
	return nil
}

func addField(all *[]Field, entry string) error {
	if strings.HasPrefix(entry, " ") && len(*all) > 0 {
		last := &(*all)[len(*all)-1]
		last.Remark = strings.TrimSpace(last.Remark + " " + strings.TrimSpace(entry))
		return nil
	}
	f, err := parseField(entry)
	if err != nil {
		return err
	}
	*all = append(*all, f)
	return nil
}

func parseField(entry string) (Field, error) {
	m := fieldLine.FindStringSubmatch(entry)
	if m == nil || !name.MatchString(m[1]) {
		return Field{}, fmt.Errorf("%q must be \"name  type  what it is\"", entry)
	}
	f := Field{Name: m[1], Remark: m[3]}
	kind, list := strings.CutSuffix(m[2], "*")
	f.List = list
	if !strings.HasPrefix(kind, "(") {
		f.Type = kind
		return f, nil
	}
	for part := range strings.SplitSeq(strings.Trim(kind, "()"), ",") {
		pair := strings.Fields(part)
		if len(pair) != 2 || !name.MatchString(pair[0]) {
			return Field{}, fmt.Errorf("%q must be \"(name type, name type)*\"", m[2])
		}
		f.Group = append(f.Group, Field{Name: pair[0], Type: pair[1]})
	}
	return f, nil
}
