package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifestLimit is how much of a file is read.
const manifestLimit = 16 << 20

// source is a file, read.
type source struct {
	name string // as errors name it
	text []byte
}

// readSources reads files, directories and "-". Its error tells of everything that could not be read.
func (s *session) readSources(paths []string) ([]source, error) {
	var (
		names   []string
		faults  []error
		sources []source
	)
	for _, path := range paths {
		found, err := filesIn(path)
		names, faults = append(names, found...), append(faults, err)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		text, err := s.readSource(name)
		sources, faults = append(sources, source{name, text}), append(faults, err)
	}
	return sources, errors.Join(faults...)
}

// filesIn is path itself or, if it is a directory, the files in it that count, in the order of their names.
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

// isDirectory is false for what cannot be looked at: reading it says why.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (s *session) readSource(name string) ([]byte, error) {
	in, err := s.openInput(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, manifestLimit+1))
	if err == nil && len(text) > manifestLimit {
		err = fmt.Errorf("%s: holds more than %d bytes", name, manifestLimit)
	}
	return text, err
}
