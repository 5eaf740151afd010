package task

import (
	"strings"
	"unicode/utf8"
)

// CutMark ends a text that was cut.
const CutMark = "… [cut]"

// Cut makes s fit into limit bytes of valid UTF-8: bytes that are not UTF-8 are replaced by U+FFFD, and a
// text that is too long loses its end, between two characters, to CutMark. The mark counts towards the
// limit; where it has no room it is left out. No more than the first limit bytes, and a few, are looked at.
func Cut(s string, limit int) string {
	if len(s) <= limit && utf8.ValidString(s) {
		return s
	}
	limit = max(limit, 0)
	head := strings.ToValidUTF8(s[:min(len(s), limit+utf8.UTFMax)], string(utf8.RuneError))
	if len(head) <= limit && len(s) <= limit {
		return head
	}
	mark := CutMark
	if len(mark) > limit {
		mark = ""
	}
	end := min(limit-len(mark), len(head))
	for end > 0 && end < len(head) && !utf8.RuneStart(head[end]) {
		end--
	}
	return head[:end] + mark
}
