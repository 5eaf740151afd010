package task

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CutMark is the end of a text that Cut has shortened.
const CutMark = "… [cut]"

// ErrorMark is the end of an error that was cut before a task kept it, so that nobody has the rest.
const ErrorMark = "… [cut at 2 KiB]"

// Cut returns s as valid UTF-8 of at most limit bytes. It replaces each run of invalid bytes by U+FFFD. If the text is too
// long, it cuts the text between two characters and appends CutMark, which counts towards the limit; it omits the mark if
// the limit is shorter than the mark. It reads only the first limit bytes of s, and a few more.
func Cut(s string, limit int) string { return cutTo(s, limit, CutMark) }

// CutError does what Cut does for the error that a task keeps, with ErrorMark. The limit is ErrorLimit, or less if
// something follows.
func CutError(s string, limit int) string { return cutTo(s, limit, ErrorMark) }

func cutTo(s string, limit int, mark string) string {
	if len(s) <= limit && utf8.ValidString(s) {
		return s
	}
	limit = max(limit, 0)
	head := strings.ToValidUTF8(s[:min(len(s), limit+utf8.UTFMax)], string(utf8.RuneError))
	if len(head) <= limit && len(s) <= limit {
		return head
	}
	if len(mark) > limit {
		mark = ""
	}
	end := min(limit-len(mark), len(head))
	for end > 0 && end < len(head) && !utf8.RuneStart(head[end]) {
		end--
	}
	return head[:end] + mark
}

// CutMiddle returns a text of at most limit bytes. It is for messages that quote what somebody sent: a long one loses its middle, so
// that it still says what is wrong and what would be right.
func CutMiddle(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	mark := fmt.Sprintf("… [%d bytes cut] …", len(s)-limit)
	room := max(limit-len(mark)-2, 0)
	head, tail := s[:room*2/3], s[len(s)-room/3:]
	return strings.ToValidUTF8(head, "") + mark + strings.ToValidUTF8(tail, "")
}
