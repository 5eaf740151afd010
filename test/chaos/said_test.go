package chaos

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/doctor"
)

// list lists the tasks in the given states, every page of them; ok is false if that could not be.
func (r *round) list(states ...wire.State) (tasks []wire.Task, ok bool) {
	limit := 500
	params := client.ListTasksParams{Limit: &limit, State: states}
	for {
		var page wire.TaskList
		status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.ListTasksWithResponse(ctx, &params)
		})
		if err := json.Unmarshal(body, &page); err != nil || status != http.StatusOK {
			r.t.Errorf("listing tasks was answered by %d: %s", status, body)
			return nil, false
		}
		tasks = append(tasks, page.Tasks...)
		if params.Cursor = page.NextCursor; params.Cursor == nil || *params.Cursor == "" {
			return tasks, true
		}
	}
}

func (r *round) schedule(s *ticking) (state wire.Schedule, ok bool) {
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.GetScheduleWithResponse(ctx, s.id, nil)
	})
	if err := json.Unmarshal(body, &state); err != nil || status != http.StatusOK {
		r.t.Errorf("reading %s was answered by %d: %s", s.id, status, body)
		return state, false
	}
	return state, true
}

func (r *round) attempts(id string) []wire.Attempt {
	var history wire.AttemptList
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.ListAttemptsWithResponse(ctx, id, nil)
	})
	if err := json.Unmarshal(body, &history); err != nil || status != http.StatusOK {
		r.t.Errorf("reading the attempts of %s was answered by %d: %s", id, status, body)
	}
	return history.Attempts
}

// ledger reads all records of a schedule, oldest first.
func (r *round) ledger(s *ticking) []wire.LedgerEntry {
	var all []wire.LedgerEntry
	limit := 500
	params := client.ReadLedgerParams{Limit: &limit}
	for {
		var page wire.LedgerPage
		status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.ReadLedgerWithResponse(ctx, s.id, &params)
		})
		if err := json.Unmarshal(body, &page); err != nil || status != http.StatusOK {
			r.t.Errorf("reading the ledger of %s was answered by %d: %s", s.id, status, body)
			return nil
		}
		all = append(all, page.Entries...)
		if params.Cursor = page.NextCursor; params.Cursor == nil {
			slices.Reverse(all)
			return all
		}
	}
}

func (r *round) audit(s *ticking) (report wire.AuditReport, ok bool) {
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.AuditScheduleWithResponse(ctx, s.id, nil)
	})
	if err := json.Unmarshal(body, &report); err != nil || status != http.StatusOK {
		r.t.Errorf("the audit of %s was answered by %d: %s", s.id, status, body)
		return report, false
	}
	return report, true
}

// staysFor is how long the doctor may find what goes by itself: a delivery in the hands of a worker that died has a lease of
// 30 s at most, and a worker drops it then.
const staysFor = 40 * time.Second

// examine has the doctor look at everything: it must find no error, and nothing wrong with the data. What may go by itself must.
func (r *round) examine() {
	ctx, cancel := context.WithTimeout(r.ctx, staysFor)
	defer cancel()
	found := r.symptoms()
	for slices.ContainsFunc(found, mayPass) && clock.Sleep(ctx, time.Second) == nil {
		found = r.symptoms()
	}
	for _, check := range found {
		r.violation("the doctor: %s: %d: %q %s", check.Name, check.Found, check.Examples, value(check.Detail))
	}
}

// symptoms returns what the doctor finds that must not be.
func (r *round) symptoms() (found []wire.DoctorCheck) {
	var params client.ExamineParams
	for {
		var report wire.DoctorReport
		status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.ExamineWithResponse(ctx, &params)
		})
		if err := json.Unmarshal(body, &report); err != nil || status != http.StatusOK {
			r.t.Errorf("the examination was answered by %d: %s", status, body)
			return nil
		}
		for _, check := range report.Checks {
			if wrong := check.Severity != wire.DoctorCheckSeverityOk; wrong && (check.Severity == wire.DoctorCheckSeverityError || r.past.minds(check.Name)) {
				found = append(found, check)
			}
		}
		if params.Cursor = report.NextCursor; params.Cursor == nil {
			return found
		}
	}
}

// mayPass reports whether a finding may go by itself: it is only a note, or Redis does not say, or replicas follow again soon.
func mayPass(c wire.DoctorCheck) bool {
	return c.Severity == wire.DoctorCheckSeverityNote || c.Severity == wire.DoctorCheckSeverityUnknown || c.Name == "replication"
}

// minds reports whether a warning or a note of a check is a violation: one of the data is, but for deliveries of a queue of which somebody has deleted
// one key after the other, or had some wait again.
func (p *past) minds(check string) bool {
	if check == "step-orphan" && len(p.lost) > 0 { // a worker has brought a step back whose run Redis has lost
		return false
	}
	meddled := slices.ContainsFunc(p.harms, func(h harm) bool {
		return h.name == "queue-deleted" || h.name == "delivery-doubled" && check == "delivery-leftovers"
	})
	return slices.ContainsFunc(doctor.Checks, func(c doctor.Check) bool { return c.Name == check && c.OfData }) &&
		(!meddled || !strings.HasPrefix(check, "delivery-"))
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
