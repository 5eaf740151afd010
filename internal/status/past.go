package status

import (
	"fmt"
	"strings"
)

// past adds that many attempts fail, and what doctor has found.
func (j *judge) past() {
	j.failures()
	d := j.Doctor
	if d.At.IsZero() || j.Now.Sub(d.At) > ExaminedSince || len(d.Errors)+len(d.Warnings) == 0 {
		return
	}
	r := Reason{Code: DoctorFound, Severity: Warn, Since: d.At, Kind: "installation"}
	r.Detail = "Doctor has found warnings with these checks: " + strings.Join(d.Warnings, ", ") + "."
	if len(d.Errors) > 0 {
		r.Severity = Bad
		r.Detail = "Doctor has found errors with these checks: " + strings.Join(d.Errors, ", ") + "."
	}
	r.Do = "See what they are and what a repair does: dtsctl doctor."
	j.add(r)
}

// failures adds that the share of attempts that fail has jumped.
func (j *judge) failures() {
	now, before := share(j.Last), share(j.Hour)
	if j.Last.Failed < failuresNeeded || now < fewFail || now < jump*before && now < halfFails {
		return
	}
	r := Reason{Code: FailuresJumped, Severity: Warn, Kind: "installation"}
	if now >= halfFails {
		r.Severity = Bad
	}
	r.Since = j.since(r)
	r.Detail = fmt.Sprintf("%d of %d attempts failed in the last %s", j.Last.Failed, j.Last.Ended, span(j.Last.Span))
	if j.Hour.Ended > 0 {
		r.Detail += fmt.Sprintf(", and %.0f %% in the hour before", 100*before)
	}
	r.Detail += "."
	if c := j.Cause; c.Count > 0 {
		const text = " %d of them failed with this error: %s. One of these tasks is %s."
		r.Detail += fmt.Sprintf(text, c.Count, c.Text, c.Example)
	}
	r.Do = "See all errors: dtsctl task failures -A."
	j.add(r)
}

// share is the share of attempts that failed; 0 if none ended.
func share(w Window) float64 {
	if w.Ended == 0 {
		return 0
	}
	return float64(w.Failed) / float64(w.Ended)
}
