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

// ByteOrderMark is what some editors put in front of UTF-8. It is no part of a text in JSON.
const ByteOrderMark = "\ufeff"

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

// JSON returns the JSON that a flag names, as Text reads it. It returns nil for a nil value.
func JSON(stdin io.Reader, flag string, value *string) (json.RawMessage, error) {
	if value == nil {
		return nil, nil
	}
	text, err := Text(stdin, flag, *value)
	if err != nil {
		return nil, err
	}
	text = strings.TrimPrefix(text, ByteOrderMark)
	var parsed json.RawMessage
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		return nil, command.Usagef("%s: is not JSON: %v", flag, err)
	}
	return parsed, nil
}

// OpenInput opens a file, or standard input as "-".
func OpenInput(stdin io.Reader, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(path)
}
