package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Values whose look depends on the reader. Whatever else is in a cell is printed as it is.
type (
	status  string  // coloured by what it says
	remark  string  // free text, cut on a terminal
	moment  string  // a time of the API as some zone writes it
	share   float64 // 0 to 1
	memory  uint64  // bytes
	listing []string
	numbers []int    // in order
	rules   []string // of a schedule, which have commas in them

	nominal time.Time // which one matters, not how far away it is
)

// nominalOf is the nominal time of something that may have none.
func nominalOf(t *time.Time) any {
	if t == nil {
		return nil
	}
	return nominal(*t)
}

// isoTime is how the API writes times.
const isoTime = "2006-01-02T15:04:05.000Z"

// clipAt is how many characters of a remark fit into a table.
const clipAt = 60

// text is a value as the reader of the results gets it, without anything that would move a terminal's cursor
// or break a line.
func (s *session) text(v any) string {
	if s.OutIsTerminal {
		return flat(s.forPeople(v))
	}
	return flat(forPrograms(v))
}

func (s *session) forPeople(v any) string {
	switch v := v.(type) {
	case time.Time:
		return relative(v, s.Now())
	case *time.Time:
		if v == nil {
			return ""
		}
		return relative(*v, s.Now())
	case time.Duration:
		return roundly(v).String()
	case nominal:
		return time.Time(v).UTC().Format("2006-01-02 15:04:05.999Z")
	case moment:
		return v.forPeople()
	case remark:
		return clip(string(v), clipAt)
	case share:
		return fmt.Sprintf("%.0f %%", float64(v)*100)
	case memory:
		return fmt.Sprintf("%.1f MiB", float64(v)/(1<<20))
	case listing:
		return strings.Join(v, ", ")
	case numbers:
		return strings.Join(v.ranges(), ", ")
	case rules:
		return clip(strings.Join(v, "; "), clipAt)
	}
	return forPrograms(v)
}

func forPrograms(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Time:
		return v.UTC().Format(isoTime)
	case *time.Time:
		if v == nil {
			return ""
		}
		return v.UTC().Format(isoTime)
	case nominal:
		return time.Time(v).UTC().Format(isoTime)
	case *string:
		return orNothing(v)
	case share:
		return strconv.FormatFloat(float64(v), 'f', -1, 64)
	case listing:
		return strings.Join(v, ",")
	case rules:
		return strings.Join(v, "; ")
	case numbers:
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint([]int(v))), ","), "[]")
	}
	return fmt.Sprint(v)
}

// orNothing is what p points to, "" if that is nothing.
func orNothing[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

// forPeople adds the day of the week, and leaves out milliseconds where there are none.
func (m moment) forPeople() string {
	t, err := time.Parse("2006-01-02T15:04:05.000Z07:00", string(m))
	if err != nil {
		return string(m)
	}
	return t.Format("Mon 2006-01-02 15:04:05.999 -07:00")
}

// relative says when t is, seen from now: "in 3 minutes", "2 hours ago".
func relative(t, now time.Time) string {
	d := t.Sub(now)
	count := span(d.Abs())
	switch {
	case count == "":
		return "now"
	case d > 0:
		return "in " + count
	}
	return count + " ago"
}

// span is d in its largest fitting unit: "3 minutes". It is "" for less than half a second.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	units := []struct {
		name string
		unit time.Duration
		upTo float64
	}{
		{"second", time.Second, 60}, {"minute", time.Minute, 60}, {"hour", time.Hour, 48},
		{"day", day, 60}, {"month", 30 * day, 24}, {"year", 365 * day, math.Inf(1)},
	}
	for _, u := range units {
		n := math.Round(d.Seconds() / u.unit.Seconds())
		switch {
		case n == 0:
			return ""
		case n == 1:
			return "1 " + u.name
		case n < u.upTo:
			return fmt.Sprintf("%.0f %ss", n, u.name)
		}
	}
	return ""
}

// ranges writes neighbours together: "0-6", "9".
func (n numbers) ranges() []string {
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

// roundly is d with as many digits as people want to read.
func roundly(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

func clip(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// flat makes one line of a text.
func flat(text string) string {
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

// scrub takes out of a text what would move a terminal's cursor. Lines stay lines.
func scrub(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
