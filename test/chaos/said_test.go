package chaos

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/store/doctor"
)

// list lists the tasks in the given states, every page of them; ok is false if that could not be.
func (r *round) list(states ...client.State) (tasks []client.Task, ok bool) {
	limit := 500
	params := client.ListTasksParams{Limit: &limit, State: states}
	for {
		var page client.TaskList
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

func (r *round) schedule(s *ticking) (state client.Schedule, ok bool) {
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.GetScheduleWithResponse(ctx, s.id, nil)
	})
	if err := json.Unmarshal(body, &state); err != nil || status != http.StatusOK {
		r.t.Errorf("reading %s was answered by %d: %s", s.id, status, body)
		return state, false
	}
	return state, true
}

func (r *round) attempts(id string) []client.Attempt {
	var history client.AttemptList
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.ListAttemptsWithResponse(ctx, id, nil)
	})
	if err := json.Unmarshal(body, &history); err != nil || status != http.StatusOK {
		r.t.Errorf("reading the attempts of %s was answered by %d: %s", id, status, body)
	}
	return history.Attempts
}

// ledger reads all records of a schedule, oldest first.
func (r *round) ledger(s *ticking) []client.LedgerEntry {
	var all []client.LedgerEntry
	limit := 500
	params := client.ReadLedgerParams{Limit: &limit}
	for {
		var page client.LedgerPage
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

func (r *round) audit(s *ticking) (report client.AuditReport, ok bool) {
	status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
		return c.AuditScheduleWithResponse(ctx, s.id, nil)
	})
	if err := json.Unmarshal(body, &report); err != nil || status != http.StatusOK {
		r.t.Errorf("the audit of %s was answered by %d: %s", s.id, status, body)
		return report, false
	}
	return report, true
}

// examine has the doctor look at everything: it must find no error, and nothing wrong with the data.
func (r *round) examine() {
	var params client.ExamineParams
	for {
		var report client.DoctorReport
		status, body := r.ask(func(ctx context.Context, c *client.ClientWithResponses) (answer, error) {
			return c.ExamineWithResponse(ctx, &params)
		})
		if err := json.Unmarshal(body, &report); err != nil || status != http.StatusOK {
			r.t.Errorf("the examination was answered by %d: %s", status, body)
			return
		}
		for _, check := range report.Checks {
			if check.Severity == client.DoctorCheckSeverityError || check.Severity == client.DoctorCheckSeverityWarning && r.minds(check.Name) {
				r.violation("the doctor: %s: %d: %q %s", check.Name, check.Found, check.Examples, value(check.Detail))
			}
		}
		if params.Cursor = report.NextCursor; params.Cursor == nil {
			return
		}
	}
}

// minds reports whether a warning of a check is a violation: one of the data is, but for deliveries of a queue of which somebody has deleted one
// key after the other.
func (r *round) minds(check string) bool {
	deleted := slices.ContainsFunc(r.past.harms, func(h harm) bool { return h.name == "queue-deleted" })
	return slices.ContainsFunc(doctor.Checks, func(c doctor.Check) bool { return c.Name == check && c.OfData }) &&
		(!deleted || !strings.HasPrefix(check, "delivery-"))
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
