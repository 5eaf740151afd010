package task

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/dts-sched/dts/internal/cli/flags"
)

// fileLine is a line of a file of tasks.
type fileLine struct {
	number int             // from 1
	task   json.RawMessage // nil if the line is refused
	why    string          // why it is refused
}

// fileLines returns the lines of a file that are not empty. A line that cannot be sent is among them, with the reason. Error: the
// file cannot be read to its end; it comes last.
func fileLines(in io.Reader) iter.Seq2[fileLine, error] {
	return func(yield func(fileLine, error) bool) {
		r := bufio.NewReaderSize(in, flags.TextLimit)
		for number := 1; ; number++ {
			text, tooLong, err := readLine(r)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(fileLine{}, fmt.Errorf("after line %d: %w", number-1, err))
				return
			}
			if number == 1 {
				text = bytes.TrimPrefix(text, []byte(flags.ByteOrderMark))
			}
			text = bytes.TrimSpace(text)
			if (len(text) > 0 || tooLong) && !yield(lineOf(number, text, tooLong), nil) || err != nil {
				return
			}
		}
	}
}

// readLine reads up to a line break or the end of the file. Of a line that is too long it returns nothing.
func readLine(r *bufio.Reader) (text []byte, tooLong bool, err error) {
	text, err = r.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		_, err = r.ReadSlice('\n')
	}
	if tooLong {
		return nil, true, err
	}
	return text, false, err
}

func lineOf(number int, text []byte, tooLong bool) fileLine {
	if tooLong {
		return fileLine{number: number, why: fmt.Sprintf("is longer than %d bytes", flags.TextLimit)}
	}
	var object map[string]json.RawMessage
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(text, &object); {
	case errors.As(err, &wrong) || err == nil && object == nil:
		return fileLine{number: number, why: "is not a JSON object"}
	case err != nil:
		return fileLine{number: number, why: fmt.Sprintf("is not JSON: %v", err)}
	}
	return fileLine{number: number, task: bytes.Clone(text)}
}
