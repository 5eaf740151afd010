package web

import (
	"cmp"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// fieldsAgain is a form with what was sent, on the page of an error: no input is lost because the page that had the
// form cannot be made.
type fieldsAgain struct {
	Acts   bool   // it is a form that acts; else one that asks for a page
	Action string // the address
	Hidden []hiddenField
	Fields []formField // that a reader types into
	Back   string      // the address of the page from which it came; "" if that is not known
}

// fieldsOf is the form of a request that has failed; nil if it makes no sense to send it again.
func (s *Site) fieldsOf(c echo.Context, v *visit, p edge.Problem) *fieldsAgain {
	switch name, value := c.Param("name"), strings.TrimSpace(cmp.Or(c.Param("*"), c.QueryParam("value"))); {
	case v.form != nil && p.Status == http.StatusServiceUnavailable:
		f := &fieldsAgain{Acts: true, Action: v.path}
		if query := v.queryWithout(saidParameters...).Encode(); query != "" {
			f.Action += "?" + query
		}
		for _, field := range slices.Sorted(maps.Keys(v.form)) {
			if field != tokenField && field != keyField {
				f.add(v, field, v.form[field])
			}
		}
		return f
	case v.form != nil:
		return nil
	case p.Field == zoneField && name == zoneField:
		f := &fieldsAgain{Action: "/prefer/" + zoneField, Back: s.back(c.Request())}
		f.Hidden = []hiddenField{{fromField, f.Back}}
		f.Fields = []formField{{
			Name: "value", Label: v.T("Time zone"), Hint: "Europe/Berlin", Value: value, Required: true,
			Wrong: strings.TrimPrefix(p.Detail, zoneField+": "),
		}}
		return f
	case c.Request().Method == http.MethodGet && p.Code == task.CodeInvalid && v.query.Has(p.Field):
		f := &fieldsAgain{Action: v.path}
		for _, field := range slices.Sorted(maps.Keys(v.query)) {
			if field != p.Field {
				f.hide(field, v.query[field])
				continue
			}
			f.Fields = append(f.Fields, formField{
				Name: field, Label: cmp.Or(v.fieldLabel(field), escaped(field)), Value: v.query.Get(field),
				Wrong: strings.TrimPrefix(p.Detail, field+": "),
			})
		}
		return f
	}
	return nil
}

// add adds a field, which is hidden if no reader types into it.
func (f *fieldsAgain) add(v *visit, name string, values []string) {
	if label := v.fieldLabel(name); label != "" {
		f.Fields = append(f.Fields, formField{Name: name, Label: label, Value: values[0]})
		return
	}
	f.hide(name, values)
}

// hide adds a hidden field with each of the values.
func (f *fieldsAgain) hide(name string, values []string) {
	for _, value := range values {
		f.Hidden = append(f.Hidden, hiddenField{name, value})
	}
}

// fieldLabel is the label of a field that a reader types into; "" for another one. Fields of pages that can be made
// without Redis are left out.
func (v *visit) fieldLabel(name string) template.HTML {
	switch name {
	case "note":
		return v.T("Why")
	case "capacity":
		return v.T("At most")
	case "name":
		return v.T("Name")
	case "slots":
		return v.T("Slots")
	case "rate":
		return v.T("Rate")
	case "per":
		return v.T("Per 1s, 1m or 1h")
	case "burst":
		return v.T("Burst")
	case "for":
		return v.T("How long, such as 1h")
	case "until":
		return v.T("Or until, in %s", v.zone)
	case "queue":
		return v.T("To queue")
	case "data":
		return v.T("Data, as JSON")
	case "namespace":
		return v.T("Namespace")
	}
	if param, is := strings.CutPrefix(name, paramPrefix); is {
		return escaped(param)
	}
	if ofStep, is := strings.CutPrefix(name, stepsPrefix); is {
		_, field, _ := strings.Cut(ofStep, ".")
		return cmp.Or(v.fieldLabel(field), escaped(strings.TrimPrefix(field, "data.")))
	}
	return ""
}
