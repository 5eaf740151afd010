package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// The guard of the edge refuses forms of other origins, which browsers name. A form also has a token, for browsers that
// name none: it is that of a cookie, which a page of another site cannot read. A page below the same domain can set the
// cookie, as only TLS lets a browser refuse that: nothing but the guard protects from it. The cookie also comes with a
// link from elsewhere, so that forms in other tabs stay good.
//
// Each form has a key, which is new when the form is shown: what is sent twice is done once.
const (
	tokenCookie = "dts-form"
	tokenField  = "token"
	keyField    = "key"
)

// Token is the token of the reader's forms.
func (v *visit) Token() string { return v.token }

// Key is a new key for a form.
func (v *visit) Key() string { return rand.Text() }

// giveToken gives the reader a token, if there is none yet.
func (s *Site) giveToken(c echo.Context, v *visit) {
	if found, err := c.Cookie(tokenCookie); err == nil && len(found.Value) == len(rand.Text()) {
		v.token = found.Value
		return
	}
	v.token = rand.Text()
	c.SetCookie(&http.Cookie{
		Name: tokenCookie, Value: v.token, Path: s.cookiePath(), HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: c.Request().TLS != nil,
	})
}

// cookiePath is where cookies are for.
func (s *Site) cookiePath() string { return cmp.Or(s.server.Options().BasePath, "/") }

// errToken is for a form that does not have the token of its reader.
var errToken = &task.Error{
	Code: edge.CodeCrossOrigin, Field: tokenField,
	Message: "the form is too old, or of another page: open the page again, and send it once more",
}

// visitOfForm reads a form, and what its request says about its reader. Errors: errToken; CodeInvalid.
func (s *Site) visitOfForm(c echo.Context) (*visit, error) {
	form, err := c.FormParams()
	if err != nil {
		return nil, task.Invalid("", "the form cannot be read")
	}
	cookie, err := c.Cookie(tokenCookie)
	if err != nil || subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(form.Get(tokenField))) != 1 {
		return nil, errToken
	}
	v := s.visitOf(c)
	v.form, v.token, v.who.Key = form, cookie.Value, form.Get(keyField)
	if len(v.who.Key) != len(rand.Text()) {
		return nil, task.Invalid(keyField, "must be that of the form")
	}
	v.now = s.Control.Now(c.Request().Context())
	return v, nil
}

// act answers a form.
func (s *Site) act(c echo.Context, a *action) error {
	v, err := s.visitOfForm(c)
	if err != nil {
		return err
	}
	done, err := s.sent.once(v.token+v.who.Key, func() (result, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), requestLimit)
		defer cancel()
		return a.do(ctx, v, v.form)
	})
	switch {
	case a.form != "" && (err != nil || done == result{}):
		return s.again(c, v, a.form, err)
	case err != nil:
		return err
	}
	return c.Redirect(http.StatusSeeOther, v.inNamespace(done.address(v.token)))
}

// again shows a form once more, with what was typed and, if it was refused, with what is wrong. It returns the refusal
// if it cannot.
func (s *Site) again(c echo.Context, v *visit, form string, refusal error) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), requestLimit)
	defer cancel()
	i := slices.IndexFunc(pages, func(p *page) bool { return p.path == form })
	v.path, v.query = v.filled(form), url.Values{}
	status := http.StatusOK
	if refusal != nil {
		problem := edge.ProblemFor(c, refusal)
		v.problem, status = &problem, problem.Status
	}
	text, err := s.render(ctx, pages[i], v)
	switch {
	case err != nil && refusal != nil:
		return refusal
	case err != nil:
		return err
	}
	return s.send(c, status, text)
}

// filled is a path of Echo with the parts of the path that was asked for.
func (v *visit) filled(pattern string) string {
	parts := strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	for i, part := range parts {
		if name, isParam := strings.CutPrefix(part, ":"); isParam {
			parts[i] = v.param(name)
		}
	}
	return string(v.Path(parts...))
}

// Typed is what stands in a field of a form: what was typed, if the form is shown again, else a first value.
func (v *visit) Typed(field, first string) string {
	if v.form == nil {
		return first
	}
	return v.form.Get(field)
}

// Refused is why the form was refused; "" if it was not.
func (v *visit) Refused() string {
	if v.problem == nil {
		return ""
	}
	return v.problem.Detail
}

// Wrong is what is wrong with a field of a form that was refused, or with a part of it; "" for nothing.
func (v *visit) Wrong(field string) string {
	if v.problem == nil {
		return ""
	}
	for _, e := range append(v.problem.Errors, edge.Invalid{Detail: v.problem.Detail, Field: v.problem.Field}) {
		rest, of := strings.CutPrefix(e.Field, field)
		if of && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return strings.TrimPrefix(e.Detail, field+": ")
		}
	}
	return ""
}

// refusalOf is the reason for people why something cannot be done now, without what caused it; nil if an error is none.
func refusalOf(err error) *task.Error {
	var refusal *task.Error
	if !errors.As(err, &refusal) {
		return nil
	}
	switch edge.CodeOf(err) {
	case task.CodeInternal, task.CodeUnavailable, schedule.CodeNotFound:
		return nil
	}
	plain := *refusal
	plain.Err = nil
	return &plain
}

// preferences are what a reader can choose, by the path of the link or form: cookies that are kept for a year.
var preferences = map[string]func(value string) bool{
	"language": func(value string) bool { return value == "en" || value == "zh" },
	"theme":    func(value string) bool { return value == "light" || value == "dark" || value == "system" },
	"zone":     validZone,
}

// prefer keeps what a reader has chosen, and shows the page again from which it came.
func (s *Site) prefer(c echo.Context) error {
	name, value := c.Param("name"), strings.TrimSpace(cmp.Or(c.Param("*"), c.QueryParam("value")))
	valid, known := preferences[name]
	switch {
	case !known:
		return echo.ErrNotFound
	case !valid(value) && name == "zone":
		return task.Invalid("zone", "must be the name of a time zone, such as UTC or Europe/Berlin")
	case !valid(value):
		return echo.ErrNotFound
	}
	c.SetCookie(&http.Cookie{
		Name: "dts-" + name, Value: value, Path: s.cookiePath(), MaxAge: 365 * 24 * 3600,
		SameSite: http.SameSiteLaxMode, HttpOnly: true, Secure: c.Request().TLS != nil,
	})
	return c.Redirect(http.StatusSeeOther, s.back(c.Request()))
}

// back is the address of the page from which a request comes. That of the answer to a form has no page: then it is the
// nearest page above.
func (s *Site) back(r *http.Request) string {
	from, err := url.Parse(r.Referer())
	if err != nil || from.Host != r.Host {
		return "/"
	}
	path := strings.TrimPrefix(from.EscapedPath(), s.server.Options().BasePath)
	for path != "" && !slices.ContainsFunc(pages, func(p *page) bool { return p.has(path) }) {
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
	if from.RawQuery != "" {
		return cmp.Or(path, "/") + "?" + from.RawQuery
	}
	return cmp.Or(path, "/")
}
