package printer

import (
	"fmt"
	"math"
	"time"
)

// Weekday returns the time with its day of the week, and without milliseconds where they are zero.
func (l LocalTime) Weekday() string {
	t, err := time.Parse("2006-01-02T15:04:05.000Z07:00", string(l))
	if err != nil {
		return string(l)
	}
	return t.Format("Mon 2006-01-02 15:04:05.999 -07:00")
}

// Relative returns the distance of t from now: "in 3 minutes", "2 hours ago".
func (p *Printer) Relative(t time.Time) string { return relative(t, p.Now()) }

func relative(t, now time.Time) string {
	d := t.Sub(now)
	count := Span(d.Abs())
	switch {
	case count == "":
		return "now"
	case d > 0:
		return "in " + count
	}
	return count + " ago"
}

// Span returns d rounded to its largest fitting unit: "3 minutes". It returns "" for less than half a second.
func Span(d time.Duration) string {
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

// round rounds d to as many digits as people want to read.
func round(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
