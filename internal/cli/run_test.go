package cli

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
)

// serve is a shell whose server answers everything with h, and is not held against the document.
func serve(t *testing.T, h http.HandlerFunc) shell {
	t.Helper()
	server := httptest.NewServer(h)
	transport := &http.Transport{}
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close() })
	return shell{server: server.URL, rt: transport}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answerOf(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

func TestBadUsage(t *testing.T) {
	for line, want := range map[string]string{
		"nonsense":                         `dtsctl has no command "nonsense"`,
		"tsak":                             `dtsctl has no command "tsak"; did you mean task?`,
		"task nonsense":                    `dtsctl task has no command "nonsense"`,
		"queue puase q":                    `dtsctl queue has no command "puase"; did you mean pause?`,
		"task get":                         "ID is missing",
		"task get a b":                     `"b" is one argument too many`,
		"task get ..":                      `ID: ".." cannot be a name`,
		"task cancel":                      "ID is missing",
		"task cancel a .":                  `ID: "." cannot be a name`,
		"queue pause":                      "QUEUE is missing",
		"node list x":                      `"x" is one argument too many`,
		"task get a --nonsense":            "unknown flag: --nonsense",
		"task get a -o xml":                `invalid argument "xml" for "-o, --output" flag: must be table, json or yaml`,
		"task get a --request-timeout x":   `invalid argument "x" for "--request-timeout" flag: time: invalid duration "x"`,
		"task get a --server ftp://x":      `--server: "ftp://x" is not the address of a server, such as http://127.0.0.1:8080`,
		"task get a --server http://":      `--server: "http://" is not the address of a server, such as http://127.0.0.1:8080`,
		"task submit":                      "--type is missing",
		"task submit --type x --payload {": "--payload: is not JSON: unexpected end of JSON input",
		"task submit --type x --payload @/nowhere":  "--payload: open /nowhere: no such file or directory",
		"task submit --type x --at tomorrow":        `--at: "tomorrow" is not a time; write 2026-01-02T15:04:05Z, or "2026-01-02 15:04" for local time`,
		"task submit --type x --at 2026 --delay 1s": "--at and --delay: give one of them, not both",
		"task submit --type x --delay -1s":          "--delay: -1s is negative",
		"task submit --type x --label a":            `--label: "a" must be NAME=VALUE`,
		"task submit --file f --type x":             "--file and --type: the tasks in the file say everything themselves",
		"task submit --file /nowhere":               "--file: open /nowhere: no such file or directory",
		"task http":                                 "URL is missing",
		"task http u -H nonsense":                   `--header: "nonsense" must be NAME:VALUE`,
		"task shell":                                "COMMAND is missing",
		"task shell --":                             "COMMAND is missing",
		"task shell --env =x true":                  `--env: "=x" must be NAME=VALUE`,
		"task update a":                             "nothing to change: give --at, --delay, --queue or --payload",
		"task list --limit 0":                       "--limit: 0 is less than 1",
		"task logs a --tail -2":                     "--tail: -2 is negative",
		"task wait a --timeout -1s":                 "--timeout: -1s is negative",
		"events x":                                  `"x" is one argument too many`,
		"completion nonsense":                       `dtsctl completion has no command "nonsense"`,
	} {
		got := shell{server: "http://127.0.0.1:1"}.run(t, strings.Fields(line)...)
		first, hint, _ := strings.Cut(got.err, "\n")
		if got.code != 2 || got.out != "" || first != "dtsctl: "+want || !strings.HasPrefix(hint, "Run 'dtsctl") || !strings.HasSuffix(hint, " --help' for what it takes.\n") {
			t.Errorf("%s: code %d\n%s\nwant %s", line, got.code, got.err, want)
		}
	}
}

func TestUnreachableServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	must(t, l.Close())
	for _, line := range []string{
		"task get a", "task list", "task wait a", "task shell true", "task cancel a b", "task retry a", "task update a --delay 1s", "task attempts a",
		"task logs a", "task logs a -f", "node list", "queue list", "queue pause q", "queue resume q", "events",
	} {
		got := shell{server: address}.run(t, strings.Fields(line)...)
		want := "dtsctl: cannot reach " + address + ": dial tcp " + address + ": connect: connection refused\n" +
			"Is dtsd running there? Point elsewhere with --server or DTSCTL_SERVER.\n"
		if got.code != 3 || got.out != "" || got.err != want {
			t.Errorf("%s: %+v, want %q", line, got, want)
		}
	}
}

func TestSomethingElseAtTheAddress(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		`it answered "502 Bad Gateway", but not as DTS does`: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			_, _ = w.Write([]byte("<html>"))
		},
		`it answered "200 OK", but not as DTS does`: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		`it answered "404 Not Found", but not as DTS does`: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(404)
			_, _ = w.Write([]byte(`{"error": "x"}`))
		},
		`it answered, but not as DTS does: invalid character '<' looking for beginning of value`: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("<html>"))
		},
	} {
		got := serve(t, h).run(t, "task", "get", "a")
		if got.code != 3 || !strings.Contains(got.err, ": "+name+"\n") {
			t.Errorf("%+v, want %q", got, name)
		}
	}
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	sh := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, line := range []string{"task get a", "events", "task logs a -f"} {
		got := sh.run(t, append(strings.Fields(line), "--request-timeout", "50ms")...)
		if got.code != 3 || !strings.Contains(got.err, ": no answer in time\n") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestACommandThatIsInterrupted(t *testing.T) {
	asked := make(chan struct{})
	sh := serve(t, func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() })
	j := sh.start(t, "task", "get", "a")
	<-asked
	j.interrupt()
	j.wait().expect(t, 130, "", "")
}

func TestAFaultOfTheServerNamesTheRequest(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/nodes", 500, problem(500, client.Internal, "", "the log says more"))
	s.pipe().run(t, "node", "list").expect(t, 1, "", "dtsctl: the log says more (internal), request id r1\n")
}

func TestTheServerIsOfTheFlagOrTheEnvironment(t *testing.T) {
	s := startStub(t)
	s.on("GET /v1/nodes", 200, client.NodeList{Nodes: []client.Node{}})
	sh := s.pipe()
	sh.server = "http://127.0.0.1:1"
	sh.run(t, "--server", s.url, "node", "list").expect(t, 0, "", "")
	sh.run(t, "node", "list", "--server", strings.TrimPrefix(s.url, "http://")).expect(t, 0, "", "")
	if got := s.last().head.Get("User-Agent"); got != "dtsctl/v1.2.3" {
		t.Errorf("it calls itself %q", got)
	}
}

func TestAServerBehindAPath(t *testing.T) {
	var asked string
	sh := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		w.WriteHeader(204)
	})
	sh.server += "/dts"
	sh.run(t, "queue", "pause", "q").expect(t, 0, "", "")
	if asked != "/dts/v1/queues/q/pause" {
		t.Errorf("asked %q", asked)
	}
}

func TestVersion(t *testing.T) {
	shell{}.run(t, "version").expect(t, 0, "dtsctl v1.2.3\n", "")
}

func TestHelp(t *testing.T) {
	for _, line := range []string{"", "--help", "task", "queue", "node"} {
		if got := (shell{}).run(t, strings.Fields(line)...); got.code != 0 || got.err != "" || !strings.Contains(got.out, "Available Commands:") {
			t.Errorf("dtsctl %s: %+v", line, got)
		}
	}
	for topic, want := range map[string]string{"exit-codes": "cannot be reached", "environment": "DTSCTL_SERVER", "formats": "RFC 3339"} {
		if got := (shell{}).run(t, "help", topic); got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("dtsctl help %s: %+v", topic, got)
		}
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" && !cmd.IsAdditionalHelpTopicCommand() {
			t.Errorf("%s has no short or long text, or no example", cmd.CommandPath())
		}
		for _, line := range strings.Split(cmd.Long, "\n") {
			if len(line) > 125 {
				t.Errorf("%s: a line of its text is too long: %q", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" { // cobra wrote it
				check(sub)
			}
		}
	}
	check(newRootCommand(&session{}))
}

func TestCompletion(t *testing.T) {
	if got := (shell{}).run(t, "completion", "bash"); got.code != 0 || !strings.Contains(got.out, "dtsctl") {
		t.Errorf("%+v", got)
	}
	if got := (shell{}).run(t, "__complete", "task", "list", "--state", "s"); got.code != 0 || !strings.HasPrefix(got.out, "scheduled\n") {
		t.Errorf("%+v", got)
	}
}
