package web

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// A reader chooses a namespace by the parameter of that name, which all links of a page keep. No cookie has it: an
// address alone says what its page shows, so a shared link shows the same page.

// namespaces are what a page offers to who chooses a namespace.
type namespaces struct {
	Names   []string // that were used last, and the present one
	More    bool     // there are others
	Unknown bool     // nothing was ever submitted to the present one
}

// readChoice reads what a page offers; nil for nothing, as while there is but one namespace.
func (s *Site) readChoice(ctx context.Context, p *page, v *visit) *namespaces {
	if !p.chooses || v.quiet {
		return nil
	}
	names, more, err := s.Control.LatestNamespaces(ctx, v.who)
	chosen := v.Namespace != control.EveryNamespace
	unknown := chosen && !slices.Contains(names, v.Namespace)
	if unknown {
		names = append(names, v.Namespace)
		slices.Sort(names)
	}
	if len(names) < 2 && !chosen {
		return nil
	}
	more = more || err != nil
	return &namespaces{names, more, unknown && !more}
}

// checkNamespace checks the name of the namespace that the reader has chosen. Error: CodeInvalid.
func (v *visit) checkNamespace() error {
	if v.Chosen() == "" {
		return nil
	}
	return task.ValidateName("namespace", v.Namespace)
}

// Chosen is the namespace that the reader has chosen; "" for all.
func (v *visit) Chosen() string {
	if v.Namespace == control.EveryNamespace {
		return ""
	}
	return v.Namespace
}

// parameter is that of a namespace in an address.
var parameter = regexp.MustCompile(`[?&]namespace=`)

// withoutNamespace are the beginnings of addresses that know no namespace.
var withoutNamespace = []string{"/assets/", "/prefer/", "/docs", "/monitor", "/metrics"}

// inNamespace is an address on this server with the namespace that the reader has chosen, unless it names one.
func (v *visit) inNamespace(address string) string {
	knows := func(begin string) bool { return strings.HasPrefix(address, begin) }
	if v.Chosen() == "" || parameter.MatchString(address) || slices.ContainsFunc(withoutNamespace, knows) {
		return address
	}
	path, fragment, _ := strings.Cut(address, "#")
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	path += separator + url.Values{"namespace": {v.Namespace}}.Encode()
	if fragment != "" {
		path += "#" + fragment
	}
	return path
}
