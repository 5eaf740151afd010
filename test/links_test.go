package test

import (
	"slices"
	"testing"
)

// notLinked are what a program that imports package dts must not link, with all packages below them, and why. What dtsd needs of them is
// in packages that only dtsd imports (internal/app.Options).
var notLinked = map[string]string{
	"github.com/alicebob/miniredis":      "the embedded Redis is for dtsd dev and for tests",
	"github.com/hibiken/asynqmon":        "only dtsd serves the monitor",
	"github.com/spf13/cobra":             "commands are for dtsd and dtsctl",
	"google.golang.org/grpc":             "only dtsd runs tasks of type grpc; package grpccall checks their payloads",
	"go.opentelemetry.io/otel/sdk":       "a program brings the provider of its spans; only dtsd has one of its own",
	"golang.org/x/net/trace":             "it serves what it traces on http.DefaultServeMux, and has templates",
	"go.opentelemetry.io/otel/exporters": "only dtsd sends spans by itself",
	"net/http/pprof":                     "it serves profiles on http.DefaultServeMux",
	"testing":                            "it adds flags",
	module + "/cmd":                      "a program has commands of its own",
	module + "/internal/cli":             "commands are for dtsctl",
}

// templates call methods by names that only the data tells. A program that runs one keeps every exported method of every type: with
// go-redis and protobuf, that doubles its size.
var templates = []string{"html/template", "text/template"}

// importsTemplates import them and run none: cast, which asynq imports, names a type of html/template, and cel-go writes
// prompts for machines, which nothing here calls.
var importsTemplates = []string{"cel.dev/cel-go/cel", "github.com/spf13/cast", "html/template", "text/template"}

func TestLinks_ProgramsGetNothingThatOnlyDtsdNeeds(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "-deps", module) {
		for banned, why := range notLinked {
			if belongsTo(p.ImportPath, []string{banned}) != "" {
				t.Errorf("package dts links %s: %s", p.ImportPath, why)
			}
		}
		for _, imported := range p.Imports {
			if slices.Contains(templates, imported) && !slices.Contains(importsTemplates, p.ImportPath) {
				t.Errorf("package dts links %s, which imports %s: templates keep the linker from leaving out methods that nobody calls", p.ImportPath, imported)
			}
		}
	}
}

func TestLinks_ProgramsGetNothingThatDrivesBrowsers(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "-deps", module+"/cmd/dtsd", module+"/cmd/dtsctl") {
		if belongsTo(p.ImportPath, []string{"github.com/chromedp"}) != "" {
			t.Errorf("the programs link %s: only tests drive browsers", p.ImportPath)
		}
	}
}
