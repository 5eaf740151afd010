package printer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dts-sched/dts/internal/api/wire"
)

// Values whose text depends on the reader. Values of other types have the same text for everybody.
type (
	Status    string    // coloured by what it says
	Remark    string    // free text, shortened on a terminal
	Share     float64   // 0 to 1
	Bytes     uint64    // an amount of memory
	Rate      float64   // how many in a unit of time
	List      []string  // separated by commas
	Rules     []string  // of a schedule; separated by semicolons, since they contain commas
	Numbers   []int     // in ascending order
	Timestamp wire.Time // a time that people read as such, not as a distance from now
	LocalTime string    // a time of the API with the offset of some zone
)

// Explained is a value that people get with an explanation behind it, in parentheses.
type Explained struct {
	Value any
	Text  string
}

// String is the value as programs get it.
func (e Explained) String() string { return textForPrograms(e.Value) }

// OptionalTimestamp returns the timestamp of a time that may be nil.
func OptionalTimestamp(t *wire.Time) any {
	if t == nil {
		return nil
	}
	return Timestamp(*t)
}

// remarkWidth is how many columns of a remark fit into a table.
const remarkWidth = 60

// Text returns the text of a value for the reader of the results. It is one line and contains nothing that moves the
// cursor of a terminal.
func (p *Printer) Text(v any) string {
	if at, ok := v.(wire.Time); ok {
		v = at.Time
	}
	if at, ok := v.(time.Time); ok && at.IsZero() { // it could not be read
		return ""
	}
	if p.OutIsTerminal {
		return Harmless(Flat(p.textForPeople(v)))
	}
	return Flat(textForPrograms(v))
}

func (p *Printer) textForPeople(v any) string {
	switch v := v.(type) {
	case time.Time:
		return p.Relative(v)
	case *wire.Time:
		if v == nil {
			return ""
		}
		return p.Relative(v.Time)
	case time.Duration:
		return round(v).String()
	case Explained:
		return fmt.Sprintf("%s (%s)", v, v.Text)
	case Timestamp:
		return v.UTC().Format("2006-01-02 15:04:05.999Z")
	case LocalTime:
		return v.Weekday()
	case Remark:
		return clip(string(v), remarkWidth)
	case Share:
		return fmt.Sprintf("%.0f %%", float64(v)*100)
	case Rate:
		return v.text()
	case Bytes:
		return v.text()
	case List:
		return strings.Join(v, ", ")
	case Numbers:
		return strings.Join(v.ranges(), ", ")
	case Rules:
		return clip(strings.Join(v, "; "), remarkWidth)
	}
	return textForPrograms(v)
}

// isoTime is the layout of times in the API.
const isoTime = "2006-01-02T15:04:05.000Z"

func textForPrograms(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Time:
		return v.UTC().Format(isoTime)
	case *wire.Time:
		if v == nil {
			return ""
		}
		return v.UTC().Format(isoTime)
	case Timestamp:
		return v.UTC().Format(isoTime)
	case *string:
		return Deref(v)
	case *int:
		if v == nil {
			return ""
		}
		return strconv.Itoa(*v)
	case Share:
		return strconv.FormatFloat(float64(v), 'f', -1, 64)
	case Rate:
		return strconv.FormatFloat(float64(v), 'g', 4, 64)
	case Strip:
		return v.letters()
	case List:
		return strings.Join(v, ",")
	case Rules:
		return strings.Join(v, "; ")
	case Numbers:
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint([]int(v))), ","), "[]")
	}
	return fmt.Sprint(v)
}

// Deref returns the string that p points to, or "" if p is nil.
func Deref[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

// ranges joins neighbours: "0-6", "9".
func (n Numbers) ranges() []string {
	var texts []string
	for first := 0; first < len(n); {
		last := first
		for last+1 < len(n) && n[last+1] == n[last]+1 {
			last++
		}
		text := strconv.Itoa(n[first])
		if last > first {
			text += "-" + strconv.Itoa(n[last])
		}
		texts = append(texts, text)
		first = last + 1
	}
	return texts
}

// Counted returns a number of things: "1 task", "2 tasks".
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Flat returns a text as one line without control characters.
func Flat(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
}

// Scrub removes control characters from a text, except for line breaks and tabs.
func Scrub(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// text is the amount in the largest unit of which there is at least one.
func (b Bytes) text() string {
	amount := float64(b)
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if amount < 1024 {
			return fmt.Sprintf("%s %s", strings.TrimSuffix(fmt.Sprintf("%.1f", amount), ".0"), unit)
		}
		amount /= 1024
	}
	return fmt.Sprintf("%.1f GiB", amount)
}

// text has two digits, and more only before the point: a task an hour is no zero.
func (r Rate) text() string {
	switch {
	case r == 0:
		return "0"
	case r >= 10:
		return fmt.Sprintf("%.0f", float64(r))
	case r < 0.0001:
		return "<0.0001"
	}
	digits := max(0, 1-int(math.Floor(math.Log10(float64(r)))))
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(float64(r), 'f', digits, 64), "0"), ".")
}
