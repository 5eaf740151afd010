// Package apidocs is the reference of the API as a page: what openapi.yaml says, for people. It is a package of its own
// so that only dtsd links it: a program that runs a template is twice as large.
//
//	openapi.yaml  ->  page (page.go, schema.go, markdown.go, example.go)  ->  page.html  ->  HTML
//
// The page needs no script and nothing from elsewhere, and its links are relative, so that it works behind a prefix.
package apidocs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/edge"
)

//go:embed page.html
var pageText string

//go:embed style.css
var style string

// Handler serves the page. It is made at the first request, and kept compressed.
func Handler() http.Handler {
	page := sync.OnceValues(compressed)
	policy := policyOf(style)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isAsked(w, r) {
			return
		}
		text, err := page()
		if err != nil {
			http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			_, _ = w.Write(text)
			return
		}
		if plain, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
			_, _ = io.Copy(w, plain) //nolint:gosec // it is the page that was compressed here
		}
	})
}

// isAsked reports whether a request reads the page, and answers it if not. Below /docs, the page's links would lead
// elsewhere.
func isAsked(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
	case strings.HasSuffix(r.URL.Path, "/docs"):
		return true
	case strings.HasSuffix(r.URL.Path, "/docs/"):
		w.Header().Set("Location", "../docs")
		w.WriteHeader(http.StatusPermanentRedirect)
	default:
		http.NotFound(w, r)
	}
	return false
}

// policyOf lets a browser load nothing at all, and use this style sheet and the icon in the page only.
func policyOf(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func compressed() ([]byte, error) {
	var text bytes.Buffer
	out := gzip.NewWriter(&text)
	if err := write(out); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	return text.Bytes(), nil
}

// write makes the page of the API's document and of the catalogue of errors.
func write(out io.Writer) error {
	doc, err := api.Document()
	if err != nil {
		return err
	}
	page, err := newPage(doc, edge.Explain())
	if err != nil {
		return err
	}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("page.html: %w", err)
	}
	return t.Execute(out, page)
}
