package web

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// What is taken out of the script to make it smaller is not in its texts, except in a list of selectors.
func TestAssets_KeepTheTextsOfTheScript(t *testing.T) {
	script, err := fs.ReadFile(assetFiles, "assets/page.js")
	testkit.Must(t, err)
	quoted := regexp.MustCompile("\"[^\"\n]*\"|`[^`]*`")
	plain := string(slim(script))
	want := quoted.FindAllString(plain, -1)
	for i, text := range want {
		if text == `"[data-acts], #can"` {
			want[i] = `"[data-acts],#can"`
		}
	}
	if got := quoted.FindAllString(tight.Replace(plain), -1); len(want) < 50 || !slices.Equal(got, want) {
		t.Errorf("the texts %q became %q", want, got)
	}
}

// The style sheet has no class that nothing uses, and the script looks for nothing that no page has.
func TestAssets_AreUsed(t *testing.T) {
	var pages strings.Builder // what makes pages
	for _, pattern := range []string{"*.go", "templates/*.html"} {
		files, err := filepath.Glob(pattern)
		testkit.Must(t, err)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				text, err := os.ReadFile(file)
				testkit.Must(t, err)
				pages.Write(text)
			}
		}
	}
	script, err := fs.ReadFile(assetFiles, "assets/page.js")
	testkit.Must(t, err)
	sheet, err := fs.ReadFile(assetFiles, "assets/page.css")
	testkit.Must(t, err)
	rules := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(sheet), "")
	shades := regexp.MustCompile(`^h[1-5]$`) // forecast.go adds the number
	words := make(map[string]bool)           // of what makes pages
	for _, word := range regexp.MustCompile(`[\w-]+`).FindAllString(pages.String(), -1) {
		words[word] = true
	}
	inScript := regexp.MustCompile(`[\w-]+`).FindAllString(string(script), -1)
	for _, class := range regexp.MustCompile(`\.([a-z][\w-]*)`).FindAllStringSubmatch(rules, -1) {
		if name := class[1]; !shades.MatchString(name) && !words[name] && !slices.Contains(inScript, name) {
			t.Errorf("page.css has the class %s, which nothing uses", name)
		}
	}
	for _, id := range regexp.MustCompile(`"#([a-z]+)`).FindAllStringSubmatch(string(script), -1) {
		if !strings.Contains(pages.String(), ` id="`+id[1]+`"`) {
			t.Errorf("page.js looks for #%s, which no page has", id[1])
		}
	}
	for _, attribute := range regexp.MustCompile(`\[(data-[a-z-]+)`).FindAllStringSubmatch(string(script), -1) {
		if !words[attribute[1]] {
			t.Errorf("page.js looks for %s, which no page has", attribute[1])
		}
	}
}
