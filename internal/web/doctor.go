package web

import (
	"context"
	"html/template"
	"slices"

	"github.com/dts-sched/dts/internal/control"
)

// examination is what the page of doctor shows.
type examination struct {
	Ran      bool // else nobody has asked for it
	Sentence template.HTML
	Icon     mark
	Groups   []findings // the worst first
	Well     []control.DoctorResult
	Looked   int
	Next     string // the cursor for what was not looked at; "" if all was
}

// findings are the checks that found something of one severity.
type findings struct {
	Severity string
	Title    template.HTML
	Mark     mark
	Results  []control.DoctorResult
}

func readDoctor(ctx context.Context, v *visit) (any, string, error) {
	title := string(v.T("Doctor"))
	if !v.page.costly {
		return examination{Icon: mark{"info", ""}, Sentence: v.T("Nothing was examined yet")}, title, nil
	}
	report, err := v.site.Control.Examine(ctx, v.who, control.DoctorRequest{Cursor: v.query.Get("cursor")})
	if err != nil {
		return nil, "", err
	}
	e := v.examined(report)
	e.Sentence = v.doctorSentence(e)
	return e, title, nil
}

// examined is a report with its results by how bad they are.
func (v *visit) examined(report control.DoctorReport) examination {
	e := examination{Ran: true, Next: report.NextCursor, Icon: mark{"ok", "t-ok"}}
	if e.Next != "" {
		e.Icon = mark{"info", ""}
	}
	groups := []findings{
		{Severity: "error", Title: v.T("Errors"), Mark: mark{"fail", "t-bad"}},
		{Severity: "warning", Title: v.T("Warnings"), Mark: mark{"warn", "t-warn"}},
		{Severity: "unknown", Title: v.T("Not known"), Mark: mark{"lost", "t-off"}},
		{Severity: "note", Title: v.T("Notes"), Mark: mark{"info", ""}},
	}
	for _, r := range report.Results {
		e.Looked += r.Looked
		i := slices.IndexFunc(groups, func(g findings) bool { return g.Severity == string(r.Severity) })
		if i < 0 {
			e.Well = append(e.Well, r)
			continue
		}
		groups[i].Results = append(groups[i].Results, r)
	}
	e.Groups = slices.DeleteFunc(groups, func(g findings) bool { return len(g.Results) == 0 })
	if len(e.Groups) > 0 {
		e.Icon = e.Groups[0].Mark
	}
	return e
}

// doctorSentence says what was found.
func (v *visit) doctorSentence(e examination) template.HTML {
	var found []string
	for _, g := range e.Groups {
		switch n := len(g.Results); g.Severity {
		case "error":
			found = append(found, string(v.T("%d errors", n)))
		case "warning":
			found = append(found, string(v.T("%d warnings", n)))
		case "unknown":
			found = append(found, string(v.T("%d checks that do not know", n)))
		case "note":
			found = append(found, string(v.T("%d notes", n)))
		}
	}
	switch {
	case len(found) == 0 && e.Next != "":
		return v.T("Nothing is wrong with what was looked at so far")
	case len(found) == 0:
		return v.T("Nothing is wrong")
	}
	return v.T("Found: %s", template.HTML(v.List(found))) //nolint:gosec // made by T
}
