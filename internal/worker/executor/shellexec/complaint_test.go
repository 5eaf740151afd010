//go:build unix

package shellexec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

const node = `[eval]:1
throw new Error("no route to db")
^

Error: no route to db
    at [eval]:1:7
    at runScriptInThisContext (node:internal/vm:209:10)
    at node:internal/process/execution:118:14
    at [eval]-wrapper:6:24
    at runScript (node:internal/process/execution:101:62)
    at node:internal/main/eval_string:51:3

Node.js v20.20.2
`

const golang = `2026/11/26 09:00:00 starting
panic: no route to db

goroutine 1 [running]:
main.connect(...)
	/app/main.go:3
main.(*pool).open(0xc000012345)
	/app/main.go:12 +0x28
example.com/shop/orders.Close({0x1, 0x2})
	/app/orders/close.go:7 +0x11
main.main()
	/app/main.go:2 +0x28
created by main.start in goroutine 1
	/app/main.go:1 +0x1d
exit status 2
`

const java = `Exception in thread "main" java.lang.IllegalStateException: cannot close
	at Orders.close(Orders.java:3)
	at Main.run(Main.java:9)
	at Main.main(Main.java:3)
Caused by: java.net.NoRouteToHostException: no route to db
	at Db.connect(Db.java:1)
	... 1 more
`

const php = `PHP Fatal error:  Uncaught Exception: no route to db in /app/a.php:3
Stack trace:
#0 /app/a.php(5): connect()
#1 /app/a.php(6): open()
#2 /app/a.php(7): close()
#3 {main}
  thrown in /app/a.php on line 3
`

func TestComplaint_HasTheLineThatNamesTheError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                            "",
		"\n \n":                       "",
		"last\n\n":                    "last",
		"a\nb\nc\nd\ne\nf\n":          "b\nc\nd\ne\nf",
		"a\n  b\nc\nd\n\te\n":         "a\n  b\nc\nd\n\te",
		"a\nb\nc\nd\nerror:\n  why\n": "b\nc\nd\nerror:\n  why",
		node: "[eval]:1\nthrow new Error(\"no route to db\")\n^\n" +
			"Error: no route to db\nNode.js v20.20.2",
		golang: "2026/11/26 09:00:00 starting\npanic: no route to db\ncreated by main.start in goroutine 1\n" +
			"\t/app/main.go:1 +0x1d\nexit status 2",
		java: "Exception in thread \"main\" java.lang.IllegalStateException: cannot close\n\tat Main.main(Main.java:3)\n" +
			"Caused by: java.net.NoRouteToHostException: no route to db\n\tat Db.connect(Db.java:1)\n\t... 1 more",
		php: "PHP Fatal error:  Uncaught Exception: no route to db in /app/a.php:3\nStack trace:\n" +
			"#2 /app/a.php(7): close()\n#3 {main}\n  thrown in /app/a.php on line 3",
	} {
		var c complaint
		for line := range strings.Lines(text) {
			c.add(strings.TrimSuffix(line, "\n"))
		}
		if want != "" {
			want = ": " + want
		}
		if got := c.String(); got != want {
			t.Errorf("of %.40q...: got %q, want %q", text, got, want)
		}
	}
}

func TestComplaint_IsBounded(t *testing.T) {
	t.Parallel()
	var c complaint
	for i := range 5 {
		c.add(fmt.Sprintf("line %d", i) + strings.Repeat("x", task.LogLineLimit-6))
	}
	text := c.String()
	if len(text) > complaintLimit+len(": ") || len(text) < complaintLimit*9/10 {
		t.Errorf("it has %d bytes", len(text))
	}
	for i, line := range strings.Split(strings.TrimPrefix(text, ": "), "\n") {
		if !strings.HasPrefix(line, fmt.Sprintf("line %d", i)) || !strings.HasSuffix(line, task.CutMark) {
			t.Errorf("line %d is %q", i, line)
		}
	}
}
