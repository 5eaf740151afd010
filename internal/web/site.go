package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/task"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/page.css assets/page.js
var assetFiles embed.FS

// Options says what the pages show. Fields without a default must be set.
type Options struct {
	Control *control.Control
	Version string // of dtsd, for the foot of each page
	Monitor bool   // asynqmon is served at /monitor
}

// Site serves the pages.
type Site struct {
	Options
	server    *edge.Server
	styled    *template.Template            // the parts that all pages share
	templates map[string]*template.Template // of pages, by their names
	assets    map[string]asset              // by the name in the path
	links     map[string]string
	shows     *shows
	sent      sentForms
}

const assetPath = "/assets/:name"

// asset is a file that browsers may keep for ever, as its name has its hash.
type asset struct {
	kind string
	text []byte
}

// Register registers the pages on a server. Error: a template or an asset is broken.
func Register(s *edge.Server, o Options) error {
	_, err := register(s, o)
	return err
}

func register(s *edge.Server, o Options) (*Site, error) {
	if o.Control == nil {
		return nil, errors.New("web: Control must be set")
	}
	site := &Site{
		Options: o, server: s, templates: map[string]*template.Template{}, assets: map[string]asset{},
		links: map[string]string{}, sent: sentForms{forms: map[string]*sentForm{}},
	}
	site.shows = newShows(site)
	if err := site.parse(); err != nil {
		return nil, err
	}
	if err := site.loadAssets(); err != nil {
		return nil, err
	}
	for _, p := range pages {
		s.Echo().GET(p.path, func(c echo.Context) error { return site.serve(c, p) })
		s.SetPolicy(edge.Policy{Fail: site.fail, Costly: p.costly}, p.path)
	}
	s.SetPolicy(edge.Policy{Fail: site.fail}, edge.NoPath)
	for _, a := range actions {
		s.Echo().POST(a.path, func(c echo.Context) error { return site.act(c, a) })
		if a.form != "" {
			s.Echo().GET(a.path, func(c echo.Context) error { return site.leadBack(c, a) })
		}
		s.SetPolicy(edge.Policy{Fail: site.fail}, a.path)
	}
	for _, path := range []string{"/prefer/:name", "/prefer/:name/*"} { // with a form, or a link
		s.Echo().GET(path, site.prefer)
		s.SetPolicy(edge.Policy{Fail: site.fail}, path)
	}
	s.Echo().GET(assetPath, site.serveAsset)
	s.SetPolicy(edge.Policy{Fail: site.fail}, assetPath)
	return site, nil
}

// parse reads the templates of all pages.
func (s *Site) parse() (err error) {
	s.styled, err = template.New("").Funcs(helpers).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return fmt.Errorf("web: %w", err)
	}
	names := []string{"error"}
	for _, p := range pages {
		names = append(names, p.name)
	}
	for _, name := range names {
		t, err := s.styled.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, "templates/"+name+".html")
		}
		if err != nil {
			return fmt.Errorf("web: %w", err)
		}
		s.templates[name] = t
	}
	return nil
}

func (s *Site) loadAssets() error {
	kinds := map[string]string{"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
	for name, kind := range kinds {
		text, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			return fmt.Errorf("web: %w", err)
		}
		text = slim(text)
		if path.Ext(name) == ".js" {
			text = []byte(tight.Replace(string(text)))
		}
		sum := sha256.Sum256(text)
		base, ext, _ := strings.Cut(name, ".")
		hashed := base + "-" + hex.EncodeToString(sum[:6]) + "." + ext
		s.assets[hashed], s.links[name] = asset{kind, text}, "/assets/"+hashed
	}
	return nil
}

// tight takes out blanks and ends of lines that a script does without: no comment ends with a semicolon. The quoted
// texts of the script have none of these, but for one selector, which means the same without.
var tight = strings.NewReplacer(
	", ", ",", "; ", ";", ";\n", ";", " = ", "=", " => ", "=>", " === ", "===", " && ", "&&", " || ", "||", " ? ", "?",
	" : ", ":", " + ", "+", " < ", "<", " * ", "*",
	" { ", "{", ") {", "){", "{ ", "{", " }", "}", ": ", ":", "if (", "if(", "for (", "for(",
)

// slim is a script or a style sheet without its indentation, and without lines that are comments.
func slim(text []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		comment := bytes.HasPrefix(line, []byte("//")) ||
			bytes.HasPrefix(line, []byte("/*")) && bytes.Index(line, []byte("*/")) == len(line)-2
		if len(line) > 0 && !comment {
			out.Write(line)
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

func (s *Site) serveAsset(c echo.Context) error {
	a, known := s.assets[c.Param("name")]
	if !known {
		return echo.ErrNotFound
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "public, max-age=31536000, immutable")
	return c.Blob(http.StatusOK, a.kind, a.text)
}

// contentPolicy lets a page use its own style sheet, script, stream and forms, and nothing else.
const contentPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// requestLimit is how long a page may take to be made.
const requestLimit = 10 * time.Second

// serve answers a request for a page: with the page, or with a stream of its parts.
func (s *Site) serve(c echo.Context, p *page) error {
	v := s.visitOf(c)
	if err := v.checkNamespace(); err != nil {
		return err
	}
	if len(p.live) > 0 && strings.HasPrefix(c.Request().Header.Get(echo.HeaderAccept), edge.StreamType) {
		return s.stream(c, p, v)
	}
	s.giveToken(c, v)
	ctx, cancel := context.WithTimeout(c.Request().Context(), requestLimit)
	defer cancel()
	shown, err := s.view(ctx, p, v)
	if isAway(err) && p.bare != nil {
		shown, err = s.bareView(c, p, v, err)
	}
	if err != nil {
		return err
	}
	if to, leads := shown.Data.(elsewhere); leads {
		return c.Redirect(http.StatusSeeOther, v.inNamespace(string(to)))
	}
	text, err := s.write(p, shown)
	if err != nil {
		return err
	}
	return s.send(c, http.StatusOK, text)
}

// bareView is the page of a form that needs nothing of Redis, with a note that Redis is away. For a form that begins
// with what is in Redis, it returns the error.
func (s *Site) bareView(c echo.Context, p *page, v *visit, err error) (*view, error) {
	data, title := p.bare(v)
	if data == nil {
		return nil, err
	}
	v.now = s.Control.Now(c.Request().Context())
	return &view{visit: v, Nav: p.nav, Title: title, Data: data, LeftOut: []string{edge.ProblemFor(c, err).Detail}}, nil
}

// elsewhere is a redirect to another page.
type elsewhere string

// send answers with a page. The answer to a form may be kept by the browser alone, which then shows it when its reader
// goes back: else it asks whether to send the form again.
func (s *Site) send(c echo.Context, status int, text []byte) error {
	kept := "no-store"
	if c.Request().Method == http.MethodPost {
		kept = "private, no-cache"
	}
	return s.server.Send(c, status, http.Header{
		echo.HeaderContentType:           {"text/html; charset=utf-8"},
		echo.HeaderContentSecurityPolicy: {contentPolicy},
		echo.HeaderCacheControl:          {kept},
		echo.HeaderVary:                  {"Accept-Language, Cookie"},
	}, text)
}

// render makes a page.
func (s *Site) render(ctx context.Context, p *page, v *visit) ([]byte, error) {
	shown, err := s.view(ctx, p, v)
	if err != nil {
		return nil, err
	}
	return s.write(p, shown)
}

// write writes a page.
func (s *Site) write(p *page, shown *view) ([]byte, error) {
	var text bytes.Buffer
	if err := s.templates[p.name].ExecuteTemplate(&text, "layout", shown); err != nil {
		return nil, fmt.Errorf("making the page %s: %w", p.name, err)
	}
	return s.finished(shown.visit, text.Bytes()), nil
}

// finished is HTML as it is sent to a reader.
func (s *Site) finished(v *visit, html []byte) []byte {
	return v.finished(html, s.server.Options().BasePath)
}

// view reads what a page shows.
func (s *Site) view(ctx context.Context, p *page, v *visit) (*view, error) {
	found, err := s.Control.GetStatus(ctx, v.who)
	if err != nil {
		return nil, err
	}
	if err := away(found); err != nil {
		return nil, err
	}
	v.now, v.Status, v.page = s.Control.Now(ctx), found, p // a status is seconds old
	take := s.Control.TakePage
	if p.costly { // seconds, in which other pages come
		take = s.Control.TakeCostlyPage
	}
	end, err := take(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	choice := s.readChoice(ctx, p, v)
	left := &redisx.LeftOut{}
	if !p.whole {
		ctx, left = redisx.LeavingOut(ctx)
	}
	data, title, err := p.read(ctx, v)
	if err != nil {
		return nil, err
	}
	shown := &view{
		visit: v, Nav: p.nav, Title: title, Data: data, Live: len(p.live) > 0, Choice: choice,
	}
	texts := left.Texts()
	if p.nav != "queues" { // those who look at queues hear of it
		texts = left.TextsBut(control.QueueNames)
	}
	for _, text := range texts {
		if p.name != "overview" || !slices.Contains(found.Warnings, text) { // the overview has the others by itself
			shown.LeftOut = append(shown.LeftOut, text)
		}
	}
	return shown, nil
}

// away is why no page can be made while Redis does not answer, so that nobody waits for it. nil: it answers. Error:
// CodeUnavailable.
func away(s status.Status) error {
	for _, r := range s.Reasons {
		if r.Code == status.RedisSilent && r.ID == "" && s.Figures.Waiting == nil {
			return task.Errorf(task.CodeUnavailable, "%s %s", r.Detail, r.Do)
		}
	}
	return nil
}

// fail answers with a page that says what went wrong. Who does not ask for HTML gets a Problem.
func (s *Site) fail(c echo.Context, p edge.Problem) (answered bool) {
	if !strings.Contains(c.Request().Header.Get(echo.HeaderAccept), "text/html") {
		return false
	}
	v, sent := c.Get(visitKey).(*visit)
	if !sent {
		v = s.visitOf(c)
	}
	again := s.fieldsOf(c, v, p)
	if v.checkNamespace() != nil { // links may not keep it
		v.Namespace = control.EveryNamespace
	}
	v.now = time.Now() //nolint:forbidigo // Redis may be away; nothing is computed from it
	if p.Code == edge.CodeNotFound {
		p.Detail = string(v.T("There is no such page."))
	}
	switch {
	case p.Field == tokenField:
		p.Title, p.Detail = string(v.T("The form is too old")), string(v.T("The form is too old, or of another page."))
	case v.renewed:
		p.Title = string(v.T("This form was sent before"))
	case p.Code == task.CodeChanged || p.Code == schedule.CodeChanged:
		p.Title = string(v.T("It has changed in the meantime"))
	}
	e := errorPage{p, again}
	title := p.Title
	if e.NotFound() {
		title = string(v.T("Nothing is here"))
	}
	shown := &view{visit: v, Title: title, Data: e, Away: e.Away(), Live: e.Away() && s.isLive(c)}
	var text bytes.Buffer
	if err := s.templates["error"].ExecuteTemplate(&text, "layout", shown); err != nil {
		s.server.Options().Log.Error("cannot make the page of an error", "error", err)
		return false
	}
	return s.send(c, p.Status, s.finished(v, text.Bytes())) == nil
}

// isLive reports whether a request is for a page that has a stream, which tells when it can be made.
func (s *Site) isLive(c echo.Context) bool {
	return c.Request().Method == http.MethodGet && slices.ContainsFunc(pages, func(p *page) bool {
		return p.path == c.Path() && len(p.live) > 0
	})
}

// errorPage is the data of the page of an error.
type errorPage struct {
	edge.Problem
	Again *fieldsAgain // nil if nothing was typed that may be sent again
}

// NotFound says that nothing has the path.
func (e errorPage) NotFound() bool { return e.Status == http.StatusNotFound }

// NoTask says that there is no task with the id, or no longer one.
func (e errorPage) NoTask() bool { return e.Code == task.CodeTaskNotFound }

// TooLarge says that what was sent is too large to be read, and so to be shown again.
func (e errorPage) TooLarge() bool { return e.Status == http.StatusRequestEntityTooLarge }

// Away says that the page cannot be made before Redis answers, or that the node ends.
func (e errorPage) Away() bool { return e.Status == http.StatusServiceUnavailable && !e.Acts() }

// Acts says that a form was sent that acts, and may be sent again.
func (e errorPage) Acts() bool { return e.Again != nil && e.Again.Acts }
