package flags

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/dts-sched/dts/internal/cli/command"
)

// TextLimit is how many bytes are read where a flag names a file. The server takes less.
const TextLimit = 1 << 20

// Text returns the value of a flag that takes a text, @FILE, or @- for standard input.
func Text(stdin io.Reader, flag, value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	in, err := OpenInput(stdin, path)
	if err != nil {
		return "", command.Usagef("%s: %v", flag, err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, TextLimit+1))
	switch {
	case err != nil:
		return "", command.Usagef("%s: %v", flag, err)
	case len(text) > TextLimit:
		return "", command.Usagef("%s: %s holds more than %d bytes", flag, path, TextLimit)
	}
	return string(text), nil
}

// Payload returns the JSON that --payload names. It returns nil for a nil value.
func Payload(stdin io.Reader, value *string) (json.RawMessage, error) {
	if value == nil {
		return nil, nil
	}
	text, err := Text(stdin, "--payload", *value)
	if err != nil {
		return nil, err
	}
	var payload json.RawMessage
	if err := json.Unmarshal([]byte(text), &payload); err != nil {
		return nil, command.Usagef("--payload: is not JSON: %v", err)
	}
	return payload, nil
}

// OpenInput opens a file, or standard input as "-".
func OpenInput(stdin io.Reader, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(path)
}
