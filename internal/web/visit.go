package web

import (
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/status"
)

// visit is one request for a page: who asks, for what, and how it is shown.
type visit struct {
	printer
	site      *Site
	who       control.Caller
	path      string                   // as in a link
	param     func(name string) string // a part of the path
	query     url.Values
	form      url.Values    // that was sent; nil for none
	reshaped  bool          // the form only asks for another form
	renewed   bool          // the form was done before: shown again, it has a new key
	before    template.HTML // what it has done then; "" if it was not
	zone      *time.Location
	Theme     string // light, dark, or "" for that of the system
	Namespace string // that the reader has chosen; control.EveryNamespace for all
	now       time.Time
	Status    status.Status // of the installation
	token     string
	status    int           // of the answer to a form that is shown again; 0 for that of problem
	heading   template.HTML // what the page says first of the refusal of the form; "" for nothing
	told      template.HTML // why the form was refused, if that is more than the text of problem
	problem   *edge.Problem // why the form was refused; nil if it was not
	page      *page         // that is made; nil before that
	labels    fieldLabels   // of the fields that the page has
	quiet     bool          // relative times are left to the browser, so that a part changes only if something has
}

// visitOf reads what a request says about its reader.
func (s *Site) visitOf(c echo.Context) *visit {
	cookie := func(name string) string {
		found, err := c.Cookie("dts-" + name)
		if err != nil {
			return ""
		}
		return found.Value
	}
	query := c.QueryParams()
	namespace := query.Get("namespace")
	if namespace == "" {
		namespace = control.EveryNamespace
	}
	v := &visit{
		printer: newPrinter(languageOf(cookie("language"), c.Request().Header.Get("Accept-Language"))),
		site:    s, who: edge.CallerOf(c, namespace), path: c.Request().URL.EscapedPath(), param: paramOf(c), query: query,
		zone: time.UTC, Namespace: namespace,
	}
	if name := cookie("zone"); validZone(name) {
		v.zone, _ = time.LoadLocation(name)
	}
	if theme := cookie("theme"); theme == "light" || theme == "dark" {
		v.Theme = theme
	}
	return v
}

// paramOf returns the parts of the path. Echo takes them from the path as it was sent if that has more than one form.
// They are copied: a stream outlives the request of its first viewer.
func paramOf(c echo.Context) func(name string) string {
	parts := make(map[string]string)
	for _, name := range c.ParamNames() {
		parts[name] = c.Param(name)
		if plain, err := url.PathUnescape(parts[name]); c.Request().URL.RawPath != "" && err == nil {
			parts[name] = plain
		}
	}
	return func(name string) string { return parts[name] }
}

// ofPath is the caller, about the namespace in the path.
func (v *visit) ofPath() control.Caller {
	who := v.who
	who.Namespace = v.param("namespace")
	return who
}

// parent is the path without its last part.
func (v *visit) parent() string { return v.path[:strings.LastIndexByte(v.path, '/')] }

// validZone reports whether a name is that of a time zone.
func validZone(name string) bool {
	_, err := time.LoadLocation(name)
	return err == nil && name != "Local" && name != ""
}

// key is the same for visits that see the same.
func (v *visit) key() string {
	return strings.Join([]string{v.path, v.query.Encode(), v.tag.String(), v.zone.String()}, "\n")
}

// Param is a parameter of the address.
func (v *visit) Param(name string) string { return v.query.Get(name) }

// number is a parameter of the address that is a number; 0 if it is none.
func (v *visit) number(name string) int {
	n, _ := strconv.Atoi(v.query.Get(name))
	return n
}

// Path is the address of a page, made of parts each of which may contain anything.
func (v *visit) Path(parts ...string) template.URL {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return template.URL("/" + strings.Join(escaped, "/")) //nolint:gosec // each part is escaped
}

// With is the address of the present page with another value of a parameter; "" is without it.
func (v *visit) With(name, value string) string {
	query := v.queryFor(name)
	if value != "" {
		query.Set(name, value)
	}
	return "?" + query.Encode()
}

// Without are the hidden fields of a form that leads where With does: it has a field for the parameter.
func (v *visit) Without(name string) (fields []hiddenField) {
	query := v.queryFor(name)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		fields = append(fields, hiddenField{name, query.Get(name)})
	}
	return fields
}

// queryFor is the query of the address, for another value of a parameter: that begins with the first page.
func (v *visit) queryFor(name string) url.Values {
	query := v.queryWithout(saidParameters...)
	query.Del(name)
	query.Del("cursor")
	return query
}

// queryWithout is the query of the address, without some parameters.
func (v *visit) queryWithout(names ...string) url.Values {
	query := maps.Clone(v.query)
	for _, name := range names {
		query.Del(name)
	}
	return query
}
