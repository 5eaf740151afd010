package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// pages are all pages of the documentation, relative to this folder.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md"}
	err := filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)\s]*)?\)`)
	codePath     = regexp.MustCompile("`((?:cmd|deploy|docs|examples|internal|lua|scripts|test)/[\\w./-]+)`")
)

func TestDocs_LinksAndPathsExist(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			}
		}
		for _, m := range codePath.FindAllStringSubmatch(string(text), -1) {
			checked++
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links and paths were found", checked)
	}
}

// Keys are made by the table of package contract and by what is generated from it, nowhere else.
func TestKeys_AreSpelledInOnePlaceOnly(t *testing.T) {
	t.Parallel()
	owners := []string{"../lua/contract/keys.go", "../lua/border.gen.go", "../lua/keyspace.go"}
	key := regexp.MustCompile(`^(dts|asynq):[^ ]`) // an error may begin with the name of its package
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, owner := range owners {
			if path == owner {
				return nil
			}
		}
		for _, literal := range literals(t, path) {
			if key.MatchString(literal) {
				t.Errorf("%s spells out the key %q; the table in lua/contract/keys.go makes keys", path, literal)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// literals are the string literals of a Go file.
func literals(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}
