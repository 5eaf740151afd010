package web

import (
	"html/template"
	"time"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/rollup"
	"github.com/dts-sched/dts/internal/status"
)

// hour is the last hour in numbers.
type hour struct {
	Ended, Bad, Dead   int
	PerMinute          int // attempts that ended in the last full minute, or in the present one if these are more
	LateP50, LateP99   time.Duration
	LateMost           time.Duration
	Line50, Line99     template.HTMLAttr
	EndedBars, BadBars template.HTMLAttr
	Running, Capacity  int
	Waiting            int
	Used               []segment
}

// hourOf counts the last hour.
func hourOf(s control.Stats, now status.Figures) hour {
	h := hour{Running: now.Running, Capacity: now.Capacity}
	if now.Waiting != nil {
		h.Waiting = *now.Waiting
	}
	var late rollup.Histogram
	ended, bad, most := []int{}, []int{}, 1
	var p50, p99 []time.Duration
	for _, period := range s.Periods {
		q := period.Counts
		h.Ended, h.Bad, h.Dead = h.Ended+q.Ended(), h.Bad+q.Bad(), h.Dead+q.Dead
		ended, bad = append(ended, q.Ended()), append(bad, q.Bad())
		most = max(most, q.Ended())
		late = late.Plus(q.Late)
		if q.Late.Total() == 0 {
			p50, p99 = append(p50, -1), append(p99, -1)
			continue
		}
		p50, p99 = append(p50, q.Late.Quantile(0.5)), append(p99, q.Late.Quantile(0.99))
		h.LateMost = max(h.LateMost, q.Late.Quantile(1))
	}
	if late.Total() > 0 {
		h.LateP50, h.LateP99 = late.Quantile(0.5), late.Quantile(0.99)
	}
	if n := len(s.Periods); n > 1 {
		h.PerMinute = max(s.Periods[n-2].Counts.Ended(), s.Periods[n-1].Counts.Ended())
	}
	h.Line50, h.Line99 = line(p50, time.Millisecond, time.Minute), line(p99, time.Millisecond, time.Minute)
	h.EndedBars, h.BadBars = bars(ended, most, 5, 4, chartHeight), bars(bad, most, 5, 4, chartHeight)
	h.Used = meterOf(h.Capacity, amount{"f-run", h.Running})
	return h
}
