// Command apitext prints what a program can use of a package: its exported declarations without comments, bodies and unexported parts, in
// the order of their names. api.txt is its output for packages dts and dtstest. A line that goes or changes there is an incompatible change.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	for i, dir := range os.Args[1:] {
		if i > 0 {
			fmt.Println()
		}
		text, err := describe(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(text)
	}
}

// describe returns the exported declarations of the package in a folder.
func describe(dir string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", fmt.Errorf("looking for files: %w", err)
	}
	files := token.NewFileSet()
	var entries []string
	name := ""
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", path, err)
		}
		name = file.Name.Name
		ast.FileExports(file)
		for _, d := range file.Decls {
			some, err := declarations(files, d)
			if err != nil {
				return "", err
			}
			entries = append(entries, some...)
		}
	}
	slices.Sort(entries)
	return "package " + name + "\n\n" + strings.Join(entries, "\n\n") + "\n", nil
}

// declarations returns a declaration as text, one entry for each thing that it declares.
func declarations(files *token.FileSet, d ast.Decl) ([]string, error) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !ofExported(d) {
			return nil, nil
		}
		d.Body = nil
		text, err := print(files, d)
		return []string{text}, err
	case *ast.GenDecl:
		var entries []string
		for _, spec := range d.Specs {
			if d.Tok == token.IMPORT {
				continue
			}
			text, err := print(files, spec)
			if err != nil {
				return nil, err
			}
			entries = append(entries, d.Tok.String()+" "+text)
		}
		return entries, nil
	}
	return nil, nil
}

// ofExported reports whether a function is no method, or one of an exported type.
func ofExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	name, ok := receiver.(*ast.Ident)
	return !ok || name.IsExported()
}

// print returns a node without comments and empty lines.
func print(files *token.FileSet, node any) (string, error) {
	var b bytes.Buffer
	if n, ok := node.(ast.Node); ok {
		ast.Inspect(n, withoutComments)
	}
	if err := (&printer.Config{Mode: printer.UseSpaces, Tabwidth: 4}).Fprint(&b, files, node); err != nil {
		return "", fmt.Errorf("printing a declaration: %w", err)
	}
	lines := strings.Split(b.String(), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	return strings.Join(lines, "\n"), nil
}

func withoutComments(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		n.Doc = nil
	case *ast.TypeSpec:
		n.Doc, n.Comment = nil, nil
	case *ast.ValueSpec:
		n.Doc, n.Comment = nil, nil
	case *ast.Field:
		n.Doc, n.Comment = nil, nil
	}
	return true
}
