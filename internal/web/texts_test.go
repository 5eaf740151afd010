package web

import (
	"go/ast"
	"go/parser"
	"go/token"
	"html/template"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template/parse"
)

// uses are the texts of the pages, and where each is used.
type uses map[string]string

// add notes a text.
func (u uses) add(text, where string) { u[text] = where }

// allTexts are the texts that templates and Go use.
func allTexts(t *testing.T) uses {
	t.Helper()
	all := uses{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			all.addGo(t, file)
		}
	}
	site := &Site{templates: map[string]*template.Template{}}
	if err := site.parse(); err != nil {
		t.Fatal(err)
	}
	for name, view := range site.templates {
		for _, part := range view.Templates() {
			if part.Tree != nil {
				all.addNode(t, part.Tree.Root, "the template "+name)
			}
		}
	}
	return all
}

// addGo adds the texts of a file: the first arguments of calls of T, which are literals, and the sentences of actions.
func (u uses) addGo(t *testing.T, file string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if table, isTable := n.(*ast.CompositeLit); isTable {
			u.addTable(table, set)
		}
		call, isCall := n.(*ast.CallExpr)
		if !isCall {
			return true
		}
		if f, isMethod := call.Fun.(*ast.SelectorExpr); !isMethod || f.Sel.Name != "T" {
			return true
		}
		where := set.Position(call.Pos()).String()
		text, isText := literal(call.Args[0])
		if !isText {
			t.Errorf("%s: the text is no literal, so no test finds its translation", where)
		}
		u.add(text, where)
		return true
	})
}

// addTable adds the values of a literal of sentencesByKey, and the text of one of barLink.
func (u uses) addTable(table *ast.CompositeLit, set *token.FileSet) {
	name, isName := table.Type.(*ast.Ident)
	if !isName || name.Name != "sentencesByKey" && name.Name != "barLink" {
		return
	}
	for _, e := range table.Elts {
		row := e.(*ast.KeyValueExpr)
		if key, isField := row.Key.(*ast.Ident); isField && key.Name != "text" {
			continue
		}
		text, _ := literal(row.Value)
		u.add(text, set.Position(row.Pos()).String())
	}
}

// literal is the value of a string literal, or of several that are joined.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, isText := literal(e.X)
		right, both := literal(e.Y)
		return left + right, isText && both
	}
	return "", false
}

// addNode adds the texts of a template: the first arguments of T.
func (u uses) addNode(t *testing.T, n parse.Node, where string) {
	t.Helper()
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, one := range n.Nodes {
				u.addNode(t, one, where)
			}
		}
	case *parse.ActionNode:
		u.addNode(t, n.Pipe, where)
	case *parse.TemplateNode:
		u.addNode(t, n.Pipe, where)
	case *parse.IfNode:
		u.addBranch(t, &n.BranchNode, where)
	case *parse.WithNode:
		u.addBranch(t, &n.BranchNode, where)
	case *parse.RangeNode:
		u.addBranch(t, &n.BranchNode, where)
	case *parse.PipeNode:
		if n != nil {
			for _, command := range n.Cmds {
				u.addNode(t, command, where)
			}
		}
	case *parse.CommandNode:
		u.addCommand(t, n, where)
	}
}

func (u uses) addBranch(t *testing.T, n *parse.BranchNode, where string) {
	t.Helper()
	u.addNode(t, n.Pipe, where)
	u.addNode(t, n.List, where)
	u.addNode(t, n.ElseList, where)
}

func (u uses) addCommand(t *testing.T, n *parse.CommandNode, where string) {
	t.Helper()
	for _, argument := range n.Args {
		u.addNode(t, argument, where) // a pipe in parentheses
	}
	var name []string
	switch f := n.Args[0].(type) {
	case *parse.FieldNode:
		name = f.Ident
	case *parse.VariableNode:
		name = f.Ident
	}
	if len(name) == 0 || name[len(name)-1] != "T" {
		return
	}
	if len(n.Args) > 1 {
		if text, isText := n.Args[1].(*parse.StringNode); isText {
			u.add(text.Text, where)
			return
		}
	}
	t.Errorf("%s: the text of %s is no literal, so no test finds its translation", where, n)
}

var verb = regexp.MustCompile(`%(?:\[(\d+)\])?([a-z%])`)

// verbs are the verbs of a text by the number of their argument.
func verbs(text string) map[int]string {
	found, next := map[int]string{}, 1
	for _, m := range verb.FindAllStringSubmatch(text, -1) {
		if m[2] == "%" {
			continue
		}
		if m[1] != "" {
			next, _ = strconv.Atoi(m[1])
		}
		found[next] = m[2]
		next++
	}
	return found
}

// Each text is there in each language, with the same arguments, and no language has a text that nobody uses.
func TestTexts_AreTranslated(t *testing.T) {
	all := allTexts(t)
	var missing []string
	for _, text := range slices.Sorted(maps.Keys(all)) {
		translated, ok := chinese[text]
		switch {
		case !ok:
			missing = append(missing, "\t"+strconv.Quote(text)+`: "",`)
		case !maps.Equal(verbs(text), verbs(translated)):
			t.Errorf("%s: %q has other arguments than %q", all[text], translated, text)
		case translated == "" || strings.ContainsAny(translated, "|"):
			t.Errorf("%s: %q cannot be the translation of %q", all[text], translated, text)
		}
	}
	if len(missing) > 0 {
		t.Errorf("texts_zh.go does not have\n%s", strings.Join(missing, "\n"))
	}
	for _, text := range slices.Sorted(maps.Keys(chinese)) {
		if _, used := all[text]; !used {
			t.Errorf("texts_zh.go has %q, which nobody uses", text)
		}
	}
	for text, forms := range english {
		if _, used := all[text]; !used {
			t.Errorf("texts_en.go has %q, which nobody uses", text)
		}
		if forms[1] != text {
			t.Errorf("texts_en.go has %q as another form of %q", forms[1], text)
		}
	}
}

func TestVerbs_HaveNumbers(t *testing.T) {
	for text, want := range map[string]map[int]string{
		"none, 99 %% of them":   {},
		"%d of %s":              {1: "d", 2: "s"},
		"%[2]s has %[1]d":       {1: "d", 2: "s"},
		"%[2]d, then %s, %%, x": {2: "d", 3: "s"},
	} {
		if got := verbs(text); !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Numbers choose the form of a text, where it has forms.
func TestTexts_FollowNumbers(t *testing.T) {
	v := inEnglish(start)
	for n, want := range map[int]string{
		0: "0 things need somebody", 1: "One thing needs somebody", 2: "2 things need somebody",
	} {
		if got := string(v.T("%d things need somebody", n)); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{1: "1 task matches: 1 is queued.", 2: "2 tasks match: 2 are queued."} {
		if got := string(v.tasksSentence([]stateTab{{Count: n}, {Name: "queued", Count: n}})); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := v.Num(1234567); got != "1,234,567" {
		t.Errorf("a large number is %q", got)
	}
}

// What page.js writes, and in which order, is the same there and in Words.
func TestWords_AreThoseOfTheScript(t *testing.T) {
	script, err := assetFiles.ReadFile("assets/page.js")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`const \[([A-Z, ]+)\] =`).FindSubmatch(script)
	if names == nil {
		t.Fatal("page.js names no words")
	}
	for _, v := range []printer{newPrinter(languages[0]), newPrinter(languages[1])} {
		words, want := strings.Split(v.Words(), "|"), strings.Count(string(names[1]), ",")+1
		if len(words) != want || slices.Contains(words, "") {
			t.Errorf("%s: %d words, the script has %d names: %q", v.tag, len(words), want, words)
		}
	}
}

// Lists are separated as in the language of the reader.
func TestList_FollowsTheLanguage(t *testing.T) {
	for i, want := range []string{"a, b, c", "a，b，c"} {
		if got := newPrinter(languages[i]).List([]string{"a", "b", "c"}); got != want {
			t.Errorf("%s: %q, want %q", languages[i], got, want)
		}
	}
}
