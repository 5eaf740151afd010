package web

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"time"
)

// Times, durations and numbers, as readers see them.

// Time is a time: how long ago, or in how long, and the time itself.
func (v *visit) Time(at time.Time) template.HTML {
	if at.IsZero() {
		return template.HTML(`<span class="mute">–</span>`)
	}
	words := ""
	if !v.quiet {
		words = v.relative(at)
	}
	return template.HTML(fmt.Sprintf( //nolint:gosec // times and our texts need no escaping
		`<time datetime="%s" title="%s"><span data-rel>%s</span></time>`,
		at.UTC().Format(time.RFC3339Nano), at.In(v.zone).Format("2006-01-02 15:04:05.000 MST"), words))
}

// Clock is the time of day.
func (v *visit) Clock(at time.Time) template.HTML { return v.timeElement(at, "15:04:05") }

// Moment is the time of day, with the date if that is not near.
func (v *visit) Moment(at time.Time) template.HTML {
	if d := at.Sub(v.now); d < 20*time.Hour && d > -20*time.Hour {
		return v.Clock(at)
	}
	return v.Minute(at)
}

// Minute is a minute in the reader's zone.
func (v *visit) Minute(at time.Time) template.HTML { return v.timeElement(at, "2006-01-02 15:04") }

// timeElement is a time in the reader's zone, as a layout of package time has it.
func (v *visit) timeElement(at time.Time, layout string) template.HTML {
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, //nolint:gosec // times need no escaping
		at.UTC().Format(time.RFC3339Nano), at.In(v.zone).Format(layout)))
}

// Stamp is a time in the reader's zone.
func (v *visit) Stamp(at time.Time) string { return at.In(v.zone).Format("2006-01-02 15:04:05") }

// Date is a day.
func (v *visit) Date(t time.Time) string { return t.Format(time.DateOnly) }

// relative is how long ago a time is, or in how long, in words. page.js writes the same.
func (v *visit) relative(at time.Time) string {
	d := at.Sub(v.now)
	if d >= time.Second/2 { // nothing is "in 0 s": what has just happened may be later than the present time by some ms
		return string(v.T("in %s", v.Span(d)))
	}
	if d > -time.Second/2 {
		return string(v.T("now"))
	}
	return string(v.T("%s ago", v.Span(-d)))
}

// Span is a duration in one unit: under 100 s, under 100 min, under 48 h, or days. page.js writes the same.
func (v *visit) Span(d time.Duration) string {
	rounded := func(n float64) string { return itoa(int(math.Round(n))) }
	switch s := d.Seconds(); {
	case s < 99.5:
		return string(v.T("%s s", rounded(s)))
	case s < 5970:
		return string(v.T("%s min", rounded(s/60)))
	case s < 172800:
		return string(v.T("%s h", rounded(s/3600)))
	default:
		return string(v.T("%s d", rounded(s/86400)))
	}
}

// Took is a duration as exactly as it matters: 12 ms, 4.2 s, 10 min 33 s, 3 h 12 min.
func (v *visit) Took(d time.Duration) string {
	two := func(n int) string { return fmt.Sprintf("%02d", n) }
	switch whole := int(d.Seconds()); {
	case d < time.Second:
		return string(v.T("%s ms", itoa(int(d.Milliseconds()))))
	case d < 9950*time.Millisecond:
		return string(v.T("%s s", fmt.Sprintf("%.1f", d.Seconds())))
	case d < 100*time.Second:
		return string(v.T("%s s", itoa(whole)))
	case d < time.Hour:
		return string(v.T("%s min %s s", itoa(whole/60), two(whole%60)))
	case d < 48*time.Hour:
		return string(v.T("%s h %s min", itoa(whole/3600), two(whole/60%60)))
	default:
		return string(v.T("%s d %s h", itoa(whole/86400), itoa(whole/3600%24)))
	}
}

// RoundTrip is how long Redis takes to answer.
func (v *visit) RoundTrip(d time.Duration) string {
	if d < time.Millisecond {
		return string(v.T("under 1 ms"))
	}
	return v.Took(d)
}

// Bytes is an amount of memory.
func (v *visit) Bytes(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if n < 1024 {
			if unit == "B" || n >= 100 {
				return fmt.Sprintf("%.0f %s", n, unit)
			}
			return fmt.Sprintf("%.1f %s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.1f TiB", n)
}

// Percent is a share in whole percent.
func (v *visit) Percent(share float64) int { return int(100*share + 0.5) }

// Pace is a rate, of something in a minute.
func (v *visit) Pace(n float64) string {
	if n == 0 || n >= 10 {
		return v.Num(int(n + 0.5))
	}
	return fmt.Sprintf("%.1f", n)
}

// Further says how many things are not shown of which only the first ones are; "" for none.
func (v *visit) Further(all, shown int) template.HTML {
	if all <= shown {
		return ""
	}
	return v.T("and %d more", all-shown)
}

func itoa(n int) string { return strconv.Itoa(n) }
