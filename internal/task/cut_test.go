package task

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCut_KeepsWholeCharactersWithinTheLimit(t *testing.T) {
	bad := strings.Repeat("\xff", 100)
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"a short text is kept":                               {"hello", 5, "hello"},
		"a long text loses its end to the mark":              {"hello, world, how are you", 15, "hello," + CutMark},
		"a character is never cut in two":                    {strings.Repeat("é", 20), 14, "éé" + CutMark},
		"a text of the limit's length is not marked":         {"éé", 4, "éé"},
		"bytes that are not UTF-8 are replaced":              {"a\xffb", 100, "a\uFFFDb"},
		"a run of them that is too long is replaced and cut": {bad, 50, "\uFFFD" + CutMark},
		"a replacement that no longer fits is cut":           {"12345678901\xff", 12, "123" + CutMark},
		"the mark is left out where it has no room":          {"hello", 3, "hel"},
		"no room, no text":                                   {"hello", 0, ""},
		"a limit below zero is zero":                         {"hello", -1, ""},
		"a NUL is a character like others":                   {"a\x00b", 3, "a\x00b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Cut(c.in, c.limit); got != c.want {
				t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
			}
		})
	}
}

// The mark of an error that is kept says where it was cut.
func TestCutError_SaysTheLimit(t *testing.T) {
	got := CutError(strings.Repeat("x", ErrorLimit+1), ErrorLimit)
	if len(got) != ErrorLimit || !strings.HasSuffix(got, "x… [cut at 2 KiB]") || ErrorLimit != 2<<10 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func FuzzCut(f *testing.F) {
	f.Add("hello, world", 9)
	f.Add("\xff\xfe\xfd", 2)
	f.Add("ééééééé", 12)
	f.Add("", -1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 1 << 10
		got := Cut(s, limit)
		if len(got) > max(limit, 0) || !utf8.ValidString(got) {
			t.Fatalf("Cut(%q, %d) = %q", s, limit, got)
		}
		if len(s) <= limit && utf8.ValidString(s) && got != s {
			t.Fatalf("Cut(%q, %d) = %q, but it fits", s, limit, got)
		}
	})
}

func TestCutMiddle_KeepsBothEnds(t *testing.T) {
	quoted := `delay: "` + strings.Repeat("ü", 50_000) + `" is not a duration such as 1m30s`
	got := CutMiddle(quoted, 200)
	if len(got) > 200 || !utf8.ValidString(got) || !strings.HasPrefix(got, `delay: "ü`) || !strings.HasSuffix(got, `ü" is not a duration such as 1m30s`) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	for _, limit := range []int{0, 1, 10, 30, 100} {
		if got := CutMiddle(quoted, limit); len(got) > max(limit, len("… [100000 bytes cut] …")) {
			t.Errorf("limit %d: %d bytes: %s", limit, len(got), got)
		}
	}
	if got := CutMiddle("short", 5); got != "short" {
		t.Errorf("a short text became %q", got)
	}
}
