package rollup

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShape_LeavesOutWhatDiffers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, want string }{
		{"order 4711 is not there", "order # is not there"},
		{"order-4711 is not there", "order-# is not there"},
		{"step3 of 12 failed", "step# of # failed"},
		{"HTTP 503: try again in 30s", "HTTP 503: try again in #"},
		{"HTTP 404: {\"error\":\"no such order\",\"id\":\"o-123\"}",
			"HTTP 404: {\"error\":\"no such order\",\"id\":\"o-#\"}"},
		{"HTTP 500, but the answer broke off: unexpected EOF", "HTTP 500, but the answer broke off: unexpected EOF"},
		{"exit status 2: cannot open /var/data/20260102/in.csv", "exit status 2: cannot open /var/data/#/in.csv"},
		{"exit status 13512", "exit status #"},
		{"timeout after 1m30s: context deadline exceeded", "timeout after #: context deadline exceeded"},
		{"dial tcp 10.1.2.3:6379: connect: connection refused", "dial tcp #: connect: connection refused"},
		{"dial tcp [fe80::1ff:fe23%eth0]:80: i/o timeout", "dial tcp #: i/o timeout"},
		{"read tcp 127.0.0.1:51234->127.0.0.1:80: EOF", "read tcp #->#: EOF"},
		{`Get "http://127.0.0.1:9000/orders/abc": EOF`, `Get "#": EOF`},
		{"user 550e8400-e29b-41d4-a716-446655440000 is locked", "user # is locked"},
		{"task 01JD8ZQ5T0V4KX8N2H5M3C7RWE is gone", "task # is gone"},
		{"object deadbeef1 at 0xc000123abc", "object # at #"},
		{"at 2026-01-02T15:04:05.123Z", "at #"},
		{`no customer "alice"`, `no customer "#"`},
		{"no customer 'alice'", "no customer '#'"},
		{"customer=\"bob\" cannot pay", "customer=\"#\" cannot pay"},
		{`the worker said "out of order"`, `the worker said "out of order"`},
		{"it can't, and it won't", "it can't, and it won't"},
		{"mail to alice.b7@mail.example.com bounced", "mail to # bounced"},
		{"panic: boom\ngoroutine 7 [running]:\nmain.go:12", "panic: boom"},
		{"exit status 1:\n  no space left", "exit status 1: no space left"},
		{"\n\n  first\tline  \nsecond", "first line"},
		{"the worker died: its lease was over", "the worker died: its lease was over"},
		{"", "?"},
		{"\xff\xfe", "?"},
		{strings.Repeat("word ", 100), strings.Repeat("word ", 31) + "wo…"},
	} {
		if got := Shape(row.text); got != row.want {
			t.Errorf("Shape(%q)\n got %q\nwant %q", row.text, got, row.want)
		}
	}
}

func TestShape_OfErrorsThatDifferByIDsIsOne(t *testing.T) {
	t.Parallel()
	for _, format := range []string{
		"order %d: no stock", "order o%d: no stock", "order %012x: no stock", "cannot lock r%[1]dx%[1]x",
		"HTTP 409: order %d", "key 'k%d'",
		"user %08[1]x-0000-4000-8000-%012[1]x", "customer \"c-%d\" is locked", "10.0.%[1]d.1:%[1]d: connection refused",
	} {
		shapes := map[string]bool{}
		for i := range 500 {
			shapes[Shape(fmt.Sprintf(format, i*7919+1000))] = true
		}
		if len(shapes) != 1 {
			t.Errorf("%q has %d shapes: %v", format, len(shapes), shapes)
		}
	}
}

func FuzzShape(f *testing.F) {
	for _, seed := range []string{
		"HTTP 503: x", `Get "http://a/1": EOF`, `{"a": "b 1"}`, "'a' \"b c 'd'\" `", "a1@b.c 1.2.3#4",
		"[::1]:80 [a:b:c]", "1_2@3.4",
		"status: 12@a.b", "\"\"'' \"x", strings.Repeat("12 'ab' ", 60),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shape := Shape(text)
		if len(shape) > TextLimit || shape == "" || !utf8.ValidString(shape) || strings.ContainsAny(shape, "\n\r\t") {
			t.Fatalf("Shape(%q) = %q", text, shape)
		}
		if again := Shape(shape); again != shape {
			t.Fatalf("the shape of %q is %q, and that of this is %q", text, shape, again)
		}
	})
}
