package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// The guard of the edge refuses forms of other origins, if the browser names the origin. For browsers that do not, each
// form has a token, which is also in a cookie. A page of another site cannot read the cookie. A page below the same
// domain could set it, since a browser refuses that only with TLS; against such a page, only the guard helps. A browser
// sends the cookie also when a link of another site leads here. So forms in other tabs keep their token.
//
// Each form has a key, which is new when the form is shown. A form that is shown again keeps its key: if Redis did not
// answer, the action may have been done. Sent again, the form does nothing twice: see action.
const (
	tokenCookie = "dts-form"
	tokenField  = "token"
	keyField    = "key"
)

// Token is the token of the reader's forms.
func (v *visit) Token() string { return v.token }

// Key is the key of a form: that of the form that is shown again, else a new one. A key that a task has is used up, and
// so is that of a form that was done.
func (v *visit) Key() string {
	if v.form != nil && !v.renewed && v.SentBefore() == "" {
		return v.who.Key
	}
	return rand.Text()
}

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

// visitOfForm reads the form of an action, and what its request says about its reader. Errors: errToken, with a visit
// that has a token; CodeInvalid.
func (s *Site) visitOfForm(c echo.Context) (*visit, error) {
	form, err := c.FormParams()
	if edge.CodeOf(err) == edge.CodeBodyTooLarge {
		return nil, err
	}
	if err != nil {
		return nil, task.Invalid("", "the form cannot be read")
	}
	cookie, err := c.Cookie(tokenCookie)
	isOf := err == nil && subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(form.Get(tokenField))) == 1
	v := s.visitOf(c)
	v.form, v.who.Key = form, form.Get(keyField)
	v.now = s.Control.Now(c.Request().Context())
	hasKey := len(v.who.Key) == len(rand.Text())
	switch {
	case !isOf:
		s.giveToken(c, v)
		v.renewed = !hasKey
		return v, errToken
	case !hasKey:
		return nil, task.Invalid(keyField, "must be that of the form")
	}
	v.token = cookie.Value
	return v, nil
}

// visitKey is where a request has the visit of its form, once that may act.
const visitKey = "dts-visit"

// act answers a form.
func (s *Site) act(c echo.Context, a *action) error {
	v, err := s.visitOfForm(c)
	switch {
	case v == nil:
		return err
	case slices.Contains(strings.Split(v.path, "/")[1:], ""): // a part of the path is empty: no page has the form
		return echo.ErrNotFound
	case err != nil:
		return s.withToken(c, v, a, err)
	}
	c.Set(visitKey, v)
	if v.reshaped = v.reshape(); v.reshaped {
		return s.again(c, v, a, nil)
	}
	done, err := s.sent.once(v.sentForm(), func() (result, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), requestLimit)
		defer cancel()
		done, err := a.do(ctx, v, v.form)
		if err == nil && done != (result{}) {
			done.ended = s.Control.Now(ctx).UnixMilli()
			done.at = cmp.Or(done.at, done.ended)
		}
		return done, err
	})
	switch {
	case err != nil || done == (result{}):
		return s.again(c, v, a, err)
	case done.twice && v.now.Sub(time.UnixMilli(done.ended)) > answeredFor:
		return s.sentBefore(c, v, a, done)
	}
	return c.Redirect(http.StatusSeeOther, v.inNamespace(done.address(v.token)))
}

// withToken shows a form again that does not have the token of its reader, with what was typed and that token. It does
// nothing else: the form may be of another page.
func (s *Site) withToken(c echo.Context, v *visit, a *action, refusal error) error {
	v.heading, v.told = v.T("Nothing was done."), v.T("The form is too old, or of another page.")
	v.told += " " + v.T("Read what it asks for, and send it again.")
	return s.again(c, v, a, refusal)
}

// answeredFor is how long a form that is sent again gets the answer of the first. Afterwards, its reader is asked.
const answeredFor = 10 * time.Second

// sentBefore answers a form that was done a while ago: what it did may have been undone since. The form is shown again
// with a new key, so that it acts when it is sent once more, unless its page has it no more.
func (s *Site) sentBefore(c echo.Context, v *visit, a *action, done result) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), requestLimit)
	defer cancel()
	v.renewed, v.before = true, v.sentBefore(done)
	shown := v.showing(cmp.Or(a.form, a.path))
	page, err := s.view(ctx, shown.page, shown)
	switch {
	case err != nil:
		return task.Errorf(task.CodeChanged, "%s", edge.ProblemFor(c, err).Detail) // the page of the error says the rest
	case page.hasForm(a) && a.path == "/submit":
		shown.before += " " + v.T("Send it again to submit another one.")
	case page.hasForm(a):
		shown.before += " " + v.T("Send it again to do it once more.")
	}
	shown.status = http.StatusConflict
	made, err := s.write(shown.page, page)
	if err != nil {
		return err
	}
	return s.sendAgain(c, shown, made)
}

// leadBack leads from the address of a form, which a browser has after its refusal, to the page that has the form.
func (s *Site) leadBack(c echo.Context, a *action) error {
	v := s.visitOf(c)
	return c.Redirect(http.StatusSeeOther, v.inNamespace(v.filled(a.form)))
}

// sentForm is the same for a form that is sent again as it was.
func (v *visit) sentForm() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{v.path, v.query.Encode(), v.form.Encode()}, "\n")))
	return string(sum[:])
}

// again shows a form once more, with what was typed and, if it was refused, with what is wrong. It returns the refusal
// if it cannot: the page of the error then has what was typed.
func (s *Site) again(c echo.Context, v *visit, a *action, refusal error) error {
	shown := v.showing(cmp.Or(a.form, a.path))
	if !isAway(refusal) {
		shown.refuse(c, refusal)
		if text := notDone[path.Base(a.path)]; text != "" && shown.heading == "" && isConflict(refusal) {
			shown.heading = v.translated(text)
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), requestLimit)
		defer cancel()
		text, err := s.render(ctx, shown.page, shown)
		switch {
		case err == nil:
			return s.sendAgain(c, shown, text)
		case refusal == nil:
			refusal = err
		}
	}
	if !isAway(refusal) || shown.page.bare == nil {
		return refusal
	}
	bare, err := s.bareView(c, shown.page, shown, refusal)
	if err != nil {
		return err
	}
	if !v.reshaped { // else nothing was to be done: the note of the page says that Redis is away
		bare.LeftOut = nil
		shown.refuse(c, refusal)
	}
	text, err := s.write(shown.page, bare)
	if err != nil {
		return err
	}
	return s.sendAgain(c, shown, text)
}

// isAway reports whether nothing can be done or read now, as Redis does not answer.
func isAway(err error) bool { return err != nil && edge.StatusOf(err) == http.StatusServiceUnavailable }

// isConflict reports whether a form was refused for what somebody else has done.
func isConflict(err error) bool {
	return err != nil && slices.Contains([]int{http.StatusConflict, http.StatusPreconditionFailed}, edge.StatusOf(err))
}

// showing is the visit of the page that shows a form again, by its path of Echo in the terms of the action.
func (v *visit) showing(pattern string) *visit {
	shown := *v
	shown.path, shown.query = v.filled(pattern), v.queryWithout(saidParameters...)
	shown.page = pages[slices.IndexFunc(pages, func(p *page) bool { return p.has(shown.path) })]
	params := shown.page.paramsIn(shown.path)
	shown.param = func(name string) string { return params[name] }
	return &shown
}

// refuse notes why the form was refused; nil if it was not.
func (v *visit) refuse(c echo.Context, refusal error) {
	if refusal != nil {
		problem := edge.ProblemFor(c, refusal)
		v.problem = &problem
	}
}

// sendAgain answers with the page of a form that is shown again.
func (s *Site) sendAgain(c echo.Context, v *visit, text []byte) error {
	status := cmp.Or(v.status, http.StatusOK)
	if v.problem != nil {
		status = cmp.Or(v.problem.Status, status) // that of mark has none
		if v.problem.RetryAfter > 0 {
			c.Response().Header().Set(echo.HeaderRetryAfter, itoa(v.problem.RetryAfter))
		}
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

// mark has the page mark the field that its address has wrong, as if it was that of a form that was refused. If one
// was, the page tells of that.
func (v *visit) mark(wrong *task.Error) {
	if v.problem == nil {
		v.problem = &edge.Problem{Detail: wrong.Error(), Field: wrong.Field}
	}
}

// Typed is what stands in a field of a form: what was typed, if the form is shown again, else a first value.
func (v *visit) Typed(field, first string) string {
	if v.form.Has(field) {
		return v.form.Get(field)
	}
	return first
}

// Refused is why the form was refused; "" if it was not.
func (v *visit) Refused() template.HTML {
	if v.problem == nil || v.told != "" {
		return v.told
	}
	return escaped(v.named(v.problem.Detail, v.problem.Field))
}

// Heading is what the page says first of the refusal of the form; "" for nothing.
func (v *visit) Heading() template.HTML { return v.heading }

// Doubtful reports whether what the form asks for may have been done nevertheless.
func (v *visit) Doubtful() bool { return v.problem != nil && v.problem.Code == task.CodeUnavailable }

// Before is what the form has done, if it was sent before; "" if it was not.
func (v *visit) Before() template.HTML { return v.before }

// OnlyLooks reports whether what the form asks for would have changed nothing, and could not be done.
func (v *visit) OnlyLooks() bool {
	return v.Doubtful() && v.form.Get("do") == doCheck
}

// Wrong is what is wrong with a field of a form that was refused, or with a part of it; "" for nothing.
func (v *visit) Wrong(field string) string {
	if v.problem == nil {
		return ""
	}
	for _, e := range append(v.problem.Errors, edge.Invalid{Detail: v.problem.Detail, Field: v.problem.Field}) {
		rest, of := strings.CutPrefix(e.Field, field)
		if of && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return part(rest) + strings.TrimPrefix(e.Detail, e.Field+": ")
		}
	}
	return ""
}

// seenField is the field of a form that says which state of a thing its reader has seen, so that an old page undoes
// nothing that somebody has done since. A form without it acts on any state.
const seenField = "seen"

// changedSince is the refusal of a form whose reader has seen another state than the present one; nil if it is the
// same.
func (v *visit) changedSince(code task.Code, form url.Values, is string) error {
	if seen := form.Get(seenField); seen == "" || seen == is {
		return nil
	}
	text := v.T("It has changed since this page was read. Send the form again if you still want this.")
	return task.Errorf(code, "%s", text)
}

// ms is a time as seenField has it.
func ms(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

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
	case !valid(value) && name == zoneField:
		return task.Invalid(zoneField, "must be the name of a time zone, such as UTC or Europe/Berlin")
	case !valid(value):
		return echo.ErrNotFound
	}
	c.SetCookie(&http.Cookie{
		Name: "dts-" + name, Value: value, Path: s.cookiePath(), MaxAge: 365 * 24 * 3600,
		SameSite: http.SameSiteLaxMode, HttpOnly: true, Secure: c.Request().TLS != nil,
	})
	return c.Redirect(http.StatusSeeOther, s.back(c.Request()))
}

// zoneField is what a wrong time zone is told of.
const zoneField = "zone"

// back is the address of the page from which a request comes: a form says it, or the browser. That of the answer to a
// form has no page: then it is the nearest page above.
func (s *Site) back(r *http.Request) string {
	from, err := url.Parse(r.Referer())
	if err != nil || from.Host != r.Host {
		from = &url.URL{}
	}
	path := strings.TrimPrefix(from.EscapedPath(), s.server.Options().BasePath)
	if asked, err := url.Parse(r.URL.Query().Get(fromField)); err == nil && asked.Path != "" {
		from, path = asked, asked.EscapedPath()
	}
	for path != "" && !slices.ContainsFunc(pages, func(p *page) bool { return p.has(path) }) {
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
	if from.RawQuery != "" {
		return cmp.Or(path, "/") + "?" + from.RawQuery
	}
	return cmp.Or(path, "/")
}

// fromField is the field of a form that says from which page it comes.
const fromField = "from"
