package apply

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/cli/flags"
)

// fileLimit is the largest size of a file, in bytes.
const fileLimit = 16 << 20

// source is the content of a file.
type source struct {
	name string // as errors name it
	text []byte
}

// readSources reads files, directories and "-". Its error names everything that could not be read.
func readSources(stdin io.Reader, paths []string) ([]source, error) {
	var (
		names   []string
		errs    []error
		sources []source
	)
	for _, path := range paths {
		found, err := filesIn(path)
		names, errs = append(names, found...), append(errs, err)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		text, err := readSource(stdin, name)
		sources, errs = append(sources, source{name, text}), append(errs, err)
	}
	return sources, errors.Join(errs...)
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
		return nil, fmt.Errorf("%s: the directory has no .yaml, .yml or .json file", path)
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
		err = fmt.Errorf("%s: holds more than %d bytes", name, fileLimit)
	}
	return text, err
}
