// Package crontab reads crontabs as cron does (Vixie cron and its descendants, cronie among them), and says what they mean in the words of DTS.
package crontab

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dts-sched/dts/internal/schedule"
)

// Entry is a line of a crontab that has a command run.
type Entry struct {
	Line    int
	When    string            // a cron expression of DTS
	Exclude []string          // cron expressions of DTS: times at which it does not run
	Zone    string            // CRON_TZ; "" if there is none
	User    string            // "" in the crontab of a user
	Shell   string            // SHELL; "" if there is none
	MailTo  string            // MAILTO; "" if there is none
	Delay   time.Duration     // RANDOM_DELAY: each run begins up to this much later; 0 if there is none
	Env     map[string]string // the other variables of the lines above
	Command string
	Stdin   string // what follows an unescaped % in the line
}

// Refusal says why a line has no Entry.
type Refusal struct {
	Line   int
	Reason string
	Reboot bool // it has no time, and is no schedule that has become unreadable
}

// LineLimit is the longest line in bytes. Cron's own limit is about 1,000.
const LineLimit = 64 << 10

// byteOrderMark is what some editors put in front of UTF-8.
const byteOrderMark = "\ufeff"

// parser reads line by line; variables hold for the lines below them.
type parser struct {
	system bool
	env    map[string]string
	delay  time.Duration
}

// Parse reads a crontab; system says that its lines have a column for the user, as those of /etc/crontab and /etc/cron.d. Each line is taken by
// itself: what is refused does not hold up the others.
func Parse(text string, system bool) (entries []Entry, refusals []Refusal) {
	p := parser{system: system, env: map[string]string{}}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, byteOrderMark)) {
		number++
		e, err := p.line(strings.TrimRight(line, "\r\n"))
		switch {
		case err != nil:
			refusals = append(refusals, Refusal{Line: number, Reason: err.Error(), Reboot: errors.Is(err, errReboot)})
		case e != nil:
			e.Line = number
			entries = append(entries, *e)
		}
	}
	return entries, refusals
}

// variable is a line that sets one: NAME = VALUE. Either side may be in quotes.
var variable = regexp.MustCompile(`^(?:"([^"]*)"|'([^']*)'|([^\s="']+))[ \t]*=[ \t]*(.*)$`)

// line reads a line; there is no entry if it is empty, a comment or a variable.
func (p *parser) line(line string) (*Entry, error) {
	line = strings.TrimLeft(line, " \t")
	switch {
	case strings.TrimSpace(line) == "" || line[0] == '#':
		return nil, nil
	case len(line) > LineLimit:
		return nil, fmt.Errorf("is longer than %d bytes", LineLimit)
	case strings.ContainsRune(line, 0):
		return nil, errors.New("contains a NUL")
	}
	if m := variable.FindStringSubmatch(line); m != nil {
		return nil, p.set(m[1]+m[2]+m[3], unquote(m[4]))
	}
	if !utf8.ValidString(line) {
		return nil, errNotUTF8
	}
	return p.entry(line)
}

// Schedules are text in UTF-8: other bytes would arrive as another command.
var errNotUTF8 = errors.New("is not UTF-8: convert the crontab, as with iconv -f LATIN1 -t UTF-8")

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownVariables are those that DTS sets for each attempt: it refuses a task that has them.
var ownVariables = []string{"DTS_TASK_ID", "DTS_NAMESPACE", "DTS_ATTEMPT", "DTS_IDEMPOTENCY_KEY", "DTS_CHECKPOINT", "DTS_TICK"}

// set sets a variable. Cron does not expand others in its value. A value that is not UTF-8 is kept, so that lines that would
// run with it are refused, too.
func (p *parser) set(name, value string) error {
	switch {
	case !variableName.MatchString(name):
		return fmt.Errorf("%q is not the name of a variable", name)
	case slices.Contains(ownVariables, name):
		return fmt.Errorf("%s is set by DTS; the lines below are taken without it", name)
	}
	if name == randomDelay {
		return p.setDelay(value)
	}
	p.env[name] = value
	if !utf8.ValidString(value) {
		return errNotUTF8
	}
	return nil
}

// randomDelay is the variable by which cronie spreads the starts of what is due at the same time.
const randomDelay = "RANDOM_DELAY"

// delayLimit is how long a schedule may spread its runs, in minutes.
const delayLimit = int(schedule.JitterLimit / time.Minute)

// setDelay reads RANDOM_DELAY: whole minutes. Lines below a value that is refused have no delay.
func (p *parser) setDelay(value string) error {
	minutes, err := strconv.Atoi(value)
	if err != nil || minutes < 0 || minutes > delayLimit {
		p.delay = 0
		return fmt.Errorf("%s: %q must be 0 to %d minutes; the lines below are taken without it", randomDelay, value, delayLimit)
	}
	p.delay = time.Duration(minutes) * time.Minute
	return nil
}

// checkVariables refuses a line that would run with another value than cron gives it.
func (p *parser) checkVariables() error {
	for _, name := range slices.Sorted(maps.Keys(p.env)) {
		if !utf8.ValidString(p.env[name]) {
			return fmt.Errorf("the variable %s above it is not UTF-8", name)
		}
	}
	return nil
}

// unquote removes a pair of quotes around a value, and otherwise the blanks behind it.
func unquote(value string) string {
	value = strings.TrimRight(value, " \t")
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

// entry reads a line that has a command run.
func (p *parser) entry(line string) (*Entry, error) {
	if err := p.checkVariables(); err != nil {
		return nil, err
	}
	line = strings.TrimPrefix(line, "-") // cronie: leave it out of the system's log
	columns := 5
	if line != "" && line[0] == '@' {
		columns = 1
	}
	when, rest := cut(line, columns)
	e := p.withVariables()
	if err := e.setTimes(when); err != nil {
		return nil, err
	}
	if p.system {
		var user []string
		if user, rest = cut(rest, 1); len(user) == 0 {
			return nil, errors.New("has no user and no command")
		}
		e.User = user[0]
	}
	e.Command, e.Stdin = split(rest)
	if strings.TrimSpace(e.Command) == "" {
		return nil, errors.New("has no command")
	}
	return e, nil
}

// withVariables is an entry with the variables of the lines above.
func (p *parser) withVariables() *Entry {
	e := &Entry{Zone: p.env["CRON_TZ"], Shell: p.env["SHELL"], MailTo: p.env["MAILTO"], Delay: p.delay, Env: maps.Clone(p.env)}
	for _, own := range []string{"CRON_TZ", "SHELL", "MAILTO", "MAILFROM"} { // these are for cron itself
		delete(e.Env, own)
	}
	return e
}

// cut returns up to n words of a line, and what follows the blanks behind them.
func cut(line string, n int) (words []string, rest string) {
	for rest = strings.TrimLeft(line, " \t"); rest != "" && len(words) < n; rest = strings.TrimLeft(rest, " \t") {
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		words, rest = append(words, rest[:end]), rest[end:]
	}
	return words, rest
}

// split divides what follows the times: the first unescaped % ends the command, and each further one is the end of a line of
// its standard input. \% is a %. As in cron, a backslash escapes a backslash in the command, which keeps both; in the standard
// input it does not.
func split(text string) (command, stdin string) {
	end, escaped := len(text), false
	for i := range len(text) {
		if text[i] == '%' && !escaped {
			end = i
			break
		}
		escaped = text[i] == '\\' && !escaped
	}
	command = commandEscapes.Replace(text[:end])
	if end == len(text) {
		return command, ""
	}
	if stdin = stdinEscapes.Replace(text[end+1:]); stdin != "" && !strings.HasSuffix(stdin, "\n") {
		stdin += "\n" // cron ends the last line, too
	}
	return command, stdin
}

var (
	commandEscapes = strings.NewReplacer(`\\`, `\\`, `\%`, `%`)
	stdinEscapes   = strings.NewReplacer(`\%`, `%`, `%`, "\n")
)

// setTimes takes the times of a line: five columns, or a descriptor.
func (e *Entry) setTimes(words []string) error {
	if len(words) == 1 && words[0][0] == '@' {
		return e.setDescriptor(words[0])
	}
	if len(words) < len(columns) {
		return fmt.Errorf("has %d of the 5 columns minute, hour, day of month, month and day of week", len(words))
	}
	for i, c := range columns {
		if err := c.check(words[i]); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	e.When = strings.Join(words, " ")
	dom, dow := words[2], words[4]
	if isAny(dom) || isAny(dow) || dom[0] != '*' && dow[0] != '*' {
		return nil
	}
	return e.setBothDays(words)
}

// setBothDays takes times where both columns of days restrict, and one of them begins with a *: then cron wants a day that fits both. (If
// none does, it wants one that fits either, as DTS does.)
func (e *Entry) setBothDays(words []string) error {
	days, err := weekdays(words[4])
	if err != nil {
		return err
	}
	if e.When = strings.Join(append(slices.Clone(words[:4]), "*"), " "); len(days) > 0 {
		e.Exclude = []string{"* * * * " + strings.Join(days, ",")}
	}
	return nil
}

// descriptors are those that DTS has, too.
var descriptors = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

var errReboot = errors.New("@reboot has no counterpart: DTS has times, not machines that start; a unit of systemd does it")

func (e *Entry) setDescriptor(word string) error {
	e.When = strings.ToLower(word)
	switch {
	case e.When == "@reboot":
		return errReboot
	case !slices.Contains(descriptors, e.When):
		return fmt.Errorf("%s is not known: there is %s", word, strings.Join(descriptors, ", "))
	}
	return nil
}
