package apply

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/manifest"
)

// fileLimit is the largest size of a file, in bytes.
const fileLimit = 64 << 20

// readSources reads files, directories and "-". The faults name everything that could not be read.
func readSources(stdin io.Reader, paths []string) (sources []manifest.Source, faults manifest.Faults) {
	var names []string
	note := func(path string, err error) {
		if err != nil {
			faults = append(faults, manifest.Fault{File: path, Text: reasonOf(err)})
		}
	}
	for _, path := range paths {
		found, err := filesIn(path)
		names = append(names, found...)
		note(path, err)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		text, err := readSource(stdin, name)
		if note(name, err); err == nil {
			sources = append(sources, manifest.Source{Name: name, Text: text})
		}
	}
	return sources, faults
}

// reasonOf returns the text of an error without the name of the file.
func reasonOf(err error) string {
	var inFile *fs.PathError
	if errors.As(err, &inFile) {
		err = inFile.Err
	}
	return err.Error()
}

// filesIn returns path itself or, if it is a directory, its YAML and JSON files, sorted by name.
func filesIn(path string) ([]string, error) {
	if path == "-" || !isDirectory(path) {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(e.Name()))) && !e.IsDir() {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the directory has no .yaml, .yml or .json file")
	}
	return names, nil
}

// isDirectory returns false for a path that it cannot look at. Reading the path then gives the error.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func readSource(stdin io.Reader, name string) ([]byte, error) {
	in, err := flags.OpenInput(stdin, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, fileLimit+1))
	if err == nil && len(text) > fileLimit {
		err = fmt.Errorf("holds more than %d bytes", fileLimit)
	}
	return text, err
}
