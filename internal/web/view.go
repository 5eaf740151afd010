package web

import (
	"html/template"
	"path"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/status"
)

// view is what the layout shows.
type view struct {
	*visit
	Nav   string // the link of the bar that is the present one
	Title string
	Data  any
	Live  bool // the page has a stream
	Away  bool // the page cannot be made before Redis answers

	Choice  *namespaces // of a namespace; nil if the page offers none
	LeftOut []string    // what cannot be read in Redis, so that the page lacks it
}

// offering is the data of a page that has its forms only while they can act. Other pages always have theirs.
type offering interface {
	// Can reports whether the page has the form whose path ends with a part.
	Can(part string) bool
}

// hasForm reports whether the page has the form of an action.
func (v *view) hasForm(a *action) bool {
	data, sometimes := v.Data.(offering)
	return !sometimes || data.Can(path.Base(a.path))
}

// Lang is the code of the language.
func (v *view) Lang() string {
	code, _ := v.tag.Base()
	return code.String()
}

// Languages are all of them, by their names in themselves.
func (v *view) Languages() any { return languageNames }

// Stream is the address of the stream of the page.
func (v *view) Stream() string {
	if !v.Live {
		return ""
	}
	if query := v.queryWithout(saidParameters...); len(query) > 0 {
		return v.path + "?" + query.Encode()
	}
	return v.path
}

// Streamed says that a part is made for the stream. The page itself leaves out what only a script shows: a browser
// without styles would show it.
func (v *view) Streamed() bool { return v.quiet }

// Asset is the address of a file.
func (v *view) Asset(name string) string { return v.site.links[name] }

// Version is that of dtsd.
func (v *view) Version() string { return v.site.Version }

// Monitor says that asynqmon is served.
func (v *view) Monitor() bool { return v.site.Monitor }

// Now is the present time, by the clock of Redis.
func (v *view) Now() string { return v.now.UTC().Format(time.RFC3339Nano) }

// At is the present time, by the clock of Redis.
func (v *view) At() time.Time { return v.now }

// Zone is the time zone in which times are shown.
func (v *view) Zone() string { return v.zone.String() }

// needing is how many things need somebody, and whether work does not happen.
type needing struct {
	N   int
	Bad bool
}

// Needing is what needs somebody of some kinds; of all without one.
func (v *view) Needing(kinds ...string) (n needing) {
	for _, r := range v.Status.Reasons {
		if len(kinds) == 0 || slices.Contains(kinds, r.Kind) {
			n.N += 1 + r.More
			n.Bad = n.Bad || r.Severity == status.Bad
		}
	}
	return n
}

// shownLink is a link of the bar.
type shownLink struct {
	Path, Key string
	Text      template.HTML
	Present   bool // it is that of the page
	Needs     needing
}

// Bar is the links to the main pages.
func (v *view) Bar() (links []shownLink) {
	for _, p := range pages {
		if p.bar == nil {
			continue
		}
		link := shownLink{Path: p.path, Key: p.bar.key, Text: v.translated(p.bar.text), Present: p.name == v.Nav}
		if len(p.bar.needs) > 0 {
			link.Needs = v.Needing(p.bar.needs...)
		}
		links = append(links, link)
	}
	return links
}
