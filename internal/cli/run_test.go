package cli_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

// TestMain runs dtsctl itself, in a process of its own, where startProcess asks for it.
func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		os.Exit(cli.Main("")) //nolint:forbidigo // this process is dtsctl
	}
	testkit.Main(m)
}

const asProcess = "DTSCTL_TEST_PROCESS"

// unread runs dtsctl as a process whose results nobody reads. It returns the exit code and what it says on stderr.
func unread(t *testing.T, s *clitest.Stub, stdin string, args ...string) (int, string) {
	t.Helper()
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	testkit.Must(t, r.Close())
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	var said strings.Builder
	cmd.Env = append(os.Environ(), asProcess+"=1", "DTSCTL_SERVER="+s.URL)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), w, &said
	_ = cmd.Run() // the code says it
	testkit.Must(t, w.Close())
	return cmd.ProcessState.ExitCode(), said.String()
}

func TestRun_EndsItsWorkThoughNobodyReads(t *testing.T) {
	s := clitest.Start(t)
	clitest.AcceptBatches(s)
	s.Handle("PUT /v1/schedules/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Dts-Change", "created")
		s.Reply(w, http.StatusCreated, wire.Schedule{
			ID: r.PathValue("id"), Namespace: "default", Revision: 1,
			CreatedAt: wire.At(clitest.Now), UpdatedAt: wire.At(clitest.Now), Cursor: wire.At(clitest.Now),
			Every: new("1h"), Task: wire.TaskTemplate{Type: "noop", Queue: new("default"), Payload: []byte("{}")},
		})
	})
	s.Handle("DELETE /v1/tasks/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.Reply(w, http.StatusOK, clitest.Task(r.PathValue("id"), wire.StateCancelled))
	})
	s.On("GET /v1/schedules", http.StatusOK, wire.ScheduleList{Schedules: []wire.Schedule{}})
	manifest := "schedules: [{id: a, every: 1h, task: {type: noop}}, {id: b, every: 1h, task: {type: noop}}]\n" +
		"tasks: [{id: t, type: noop}]"
	for _, c := range []struct {
		stdin string
		line  string
		last  string // the request that comes last
	}{
		{manifest, "apply -f -", `{"tasks":[{"id":"t","namespace":"default","type":"noop"}]}`},
		{
			strings.Repeat(`{"id":"a","type":"x"}`+"\n", 1000) + `{"id":"end","type":"x"}`,
			"task submit -f -", `{"tasks":[{"id":"end","type":"x"}]}`,
		},
		{"", "task cancel a b end", "DELETE /v1/tasks/end"},
		{"0 3 * * * a\n0 4 * * * b", "import crontab - --timezone UTC", "GET /v1/schedules"},
	} {
		code, said := unread(t, s, c.stdin, strings.Fields(c.line)...)
		last := s.Last()
		if code != 0 || !strings.HasPrefix(last.Body, c.last) && !strings.HasPrefix(last.Line, c.last) {
			t.Errorf("%s: code %d, %q; the last request is %s %s", c.line, code, said, last.Line, last.Body)
		}
	}
}

func TestRun_StopsReadingWhenNobodyReads(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/tasks/{id}", http.StatusOK, clitest.Task("a", wire.StateScheduled))
	lines := []wire.LogLine{{At: wire.At(clitest.Now), Attempt: 1, Stream: "stdout", Text: "a line", Cursor: "1-1"}}
	s.On("GET /v1/tasks/{id}/logs", http.StatusOK, wire.LogPage{Lines: lines})
	s.On("GET /v1/tasks", http.StatusOK, wire.TaskList{
		Tasks: []wire.Task{clitest.Task("a", wire.StateFailed)}, NextCursor: new("more"),
	})
	if code, said := unread(t, s, "", "task", "list", "--all"); code != 141 || said != "" || len(s.Lines()) != 1 {
		t.Errorf("list: code %d, %q, %v", code, said, s.Lines())
	}
	for _, command := range []string{"get", "logs"} {
		if code, said := unread(t, s, "", "task", command, "a"); code != 141 || said != "" {
			t.Errorf("%s: code %d, %q", command, code, said)
		}
	}
}

// times are what an error says of the times that it takes.
const times = `2026-01-02T15:04:05Z, or 2026-01-02, "2026-01-02 15:04" or "2026-01-02 15:04:05" for local time`

func TestRun_EndsWithTwoAtBadUsage(t *testing.T) {
	const unit = ` with its unit, as in 30s, 1h30m or 48h`
	const ago = `how long ago it was, as 90s, 2h or 36h`
	const address = ` is not the address of a server, such as http://127.0.0.1:8080`
	for line, want := range map[string]string{
		"nonsense":                            `dtsctl has no command "nonsense"`,
		"tsak":                                `dtsctl has no command "tsak"; did you mean task?`,
		"serv":                                `dtsctl has no command "serv"`,
		"server":                              `dtsctl has no command "server"`,
		"task nonsense":                       `dtsctl task has no command "nonsense"`,
		"queue puase q":                       `dtsctl queue has no command "puase"; did you mean pause?`,
		"help xyzzy":                          `dtsctl has no command "xyzzy"`,
		"help tsak":                           `dtsctl has no command "tsak"; did you mean task?`,
		"help task lsit":                      `dtsctl task has no command "lsit"; did you mean list or wait?`,
		"help task list x":                    `dtsctl task list has no command "x"`,
		"completion fish2":                    `dtsctl completion has no command "fish2"; did you mean fish?`,
		"task get":                            "ID is missing",
		"task get a b":                        `"b" is one argument too many`,
		"task get ..":                         `ID: ".." cannot be a name`,
		"task cancel":                         "ID is missing",
		"task cancel a .":                     `ID: "." cannot be a name`,
		"queue pause":                         "QUEUE is missing",
		"node list x":                         `"x" is one argument too many`,
		"task get a --nonsense":               "unknown flag: --nonsense",
		"task get a -o xml":                   `--output: "xml" must be table, json or yaml`,
		"task get a --request-timeout x":      `--request-timeout: "x" must be a duration` + unit,
		"schedule list --stale 48h":           `"48h" is one argument too many; as a value of --stale, write --stale=48h`,
		"task get a --server ftp://x":         `--server: "ftp://x"` + address,
		"task get a --server http://u:p%ss@h": `--server: "http://xxxxx@h"` + address,
		"task get a --server u:p/ss@h:x":      `--server: "xxxxx@h:x"` + address,
		"http://u:pass@h":                     `dtsctl has no command "http://xxxxx@h"`,
		"task get a -s=http://u:pass@h":       "unknown shorthand flag: 's' in -s=http://xxxxx@h",
		"task get a --server http://":         `--server: "http://"` + address,
		"task submit":                         "--type is missing",
		"task submit --type x --payload {":    "--payload: is not JSON: unexpected end of JSON input",
		"task submit --type x --payload @/nowhere":  "--payload: open /nowhere: no such file or directory",
		"task submit --type x --at tomorrow":        `--at: "tomorrow" is not a time; write ` + times,
		"task submit --type x --at 2026 --delay 1s": "--at and --delay: give one of them, not both",
		"task submit --type x --delay -1s":          "--delay: -1s is negative",
		"task submit --type x --label a":            `--label: "a" must be NAME=VALUE`,
		"task submit --file f --type x":             "--file and --type: the tasks in the file say everything themselves",
		"task submit --file /nowhere":               "--file: open /nowhere: no such file or directory",
		"task list --queue=":                        `--queue: "" must not be empty`,
		"task list --state=":                        `--state: "" must not be empty`,
		"task list --label=":                        `--label: "" must not be empty`,
		"task retry -A --state failed --queue=":     `--queue: "" must not be empty`,
		"task retry --type=":                        `--type: "" must not be empty`,
		"task cancel --error=":                      `--error: "" must not be empty`,
		"task forget --schedule=":                   `--schedule: "" must not be empty`,
		"task requeue --to low --owner=":            `--owner: "" must not be empty`,
		"task requeue --to low --node=":             `--node: "" must not be empty`,
		"task failures --queue=":                    `--queue: "" must not be empty`,
		"events --task=":                            `--task: "" must not be empty`,
		"schedule list --owner=":                    `--owner: "" must not be empty`,
		"schedule list --prefix=":                   `--prefix: "" must not be empty`,
		"schedule export --label=":                  `--label: "" must not be empty`,
		"schedule pause --label=":                   `--label: "" must not be empty`,
		"schedule resume --label=":                  `--label: "" must not be empty`,
		"schedule delete --label=":                  `--label: "" must not be empty`,
		"schedule trigger a --idempotency-key=":     `--idempotency-key: "" must not be empty`,
		"task list -A -n other":                     "--all-namespaces and --namespace other: give one of them, not both",
		"schedule list -n other --all-namespaces":   "--all-namespaces and --namespace other: give one of them, not both",
		"task retry --queue low --spread -5m":       "--spread: -5m0s is negative",
		"task list --since 1d":                      `--since: "1d" is not a time; write ` + ago + `, or ` + times,
		"schedule forecast --next 0":                "--next: 0 must be 1 to 500",
		"task http":                                 "URL is missing",
		"task http u -H nonsense":                   `--header: "nonsense" must be NAME:VALUE`,
		"task grpc a:1":                             "METHOD is missing",
		"task grpc a:1 b.C/D -H nonsense":           `--metadata: "nonsense" must be NAME:VALUE`,
		"task grpc a:1 b.C/D -d {":                  "--data: is not JSON: unexpected end of JSON input",
		"task grpc a:1 b.C/D --tls-ca ca.pem":       `--tls-ca: "ca.pem" must be @FILE, or @- for standard input`,
		"task grpc a:1 b.C/D --descriptor-set /no":  "--descriptor-set: open /no: no such file or directory",
		"task shell":                                "COMMAND is missing",
		"task shell --":                             "COMMAND is missing",
		"task shell --env =x true":                  `--env: "=x" must be NAME=VALUE`,
		"task change a": "nothing to change: give --at, --delay, --queue, --payload, --priority, --fair-key, " +
			"--fair-weight, --limit-key, --cost, --select, --prefer or --route",

		"task http u --route-load cpu": `--route-load: "cpu" must be NAME=VALUE`,
		"task http u --prefer x:gpu": `--prefer: "x:gpu" must be WEIGHT:SELECTOR, as 10:zone=eu, ` +
			"or a selector alone",
		"schedule put a --every 1h --prefer : -- b": `--prefer: ":" must be WEIGHT:SELECTOR, as 10:zone=eu, ` +
			"or a selector alone",
		"task http u --route-load disk=1": "--route-load: disk=1 must be cpu, memory, slots or response, " +
			"and a number of 0 to 1",

		"task list --limit 0":        "--limit: 0 is less than 1",
		"task logs a --tail -2":      "--tail: -2 is negative",
		"task wait a --timeout -1s":  "--timeout: -1s is negative",
		"events x":                   `"x" is one argument too many`,
		"bench x":                    `"x" is one argument too many`,
		"bench --tasks 100001":       "--tasks: 100001 must be 1 to 100000",
		"bench --rate -1":            "--rate: -1 is negative",
		"bench --delay -1s":          "--delay: -1s is negative",
		"bench --delay 1us":          "--delay: 1µs is not a whole number of milliseconds",
		"bench --tasks 601 --rate 2": "--timeout: 5m0s is too short: the last task is due after 5m1s",
		"completion nonsense":        `dtsctl completion has no command "nonsense"`,
	} {
		got := clitest.Shell{Server: "http://127.0.0.1:1"}.Run(t, strings.Fields(line)...)
		first, hint, _ := strings.Cut(got.Err, "\n")
		hinted := strings.HasPrefix(hint, "Run 'dtsctl") && strings.HasSuffix(hint, " --help' for what it takes.\n")
		if got.Code != 2 || got.Out != "" || first != "dtsctl: "+want || !hinted {
			t.Errorf("%s: code %d\n%s\nwant %s", line, got.Code, got.Err, want)
		}
	}
}

func TestRun_EndsWithThreeIfTheServerIsUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address := l.Addr().String()
	testkit.Must(t, l.Close())
	for _, line := range []string{
		"task get a", "task list", "task wait a", "task shell true", "task cancel a b", "task retry a",
		"task change a --delay 1s", "task attempts a", "task logs a", "task logs a -f",
		"node list", "queue list", "queue pause q", "queue resume q", "events", "bench",
	} {
		got := clitest.Shell{Server: address}.Run(t, strings.Fields(line)...)
		want := "dtsctl: cannot reach " + address + ": dial tcp " + address + ": connect: connection refused\n" +
			"Is dtsd running there? Point elsewhere with --server or DTSCTL_SERVER.\n"
		if got.Code != 3 || got.Out != "" || got.Err != want {
			t.Errorf("%s: %+v, want %q", line, got, want)
		}
	}
	for _, line := range []string{"task get a", "task logs a -f"} {
		got := clitest.Shell{Server: "http://user:secret@" + address}.Run(t, strings.Fields(line)...)
		want := "dtsctl: cannot reach http://xxxxx@" + address + ": "
		if !strings.HasPrefix(got.Err, want) || strings.Contains(got.Err, "secret") {
			t.Errorf("%s says %q, want %q", line, got.Err, want)
		}
	}
}

func TestRun_EndsWithThreeIfSomethingElseAnswers(t *testing.T) {
	const notJSON = `it answered, but not as DTS does: invalid character '<' looking for beginning of value`
	for name, h := range map[string]http.HandlerFunc{
		`it answered "502 Bad Gateway", but not as DTS does`: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			_, _ = w.Write([]byte("<html>"))
		},
		`it answered "200 OK", but not as DTS does`: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
		},
		`it answered "404 Not Found", but not as DTS does`: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(404)
			_, _ = w.Write([]byte(`{"error": "x"}`))
		},
		notJSON: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("<html>"))
		},
	} {
		got := clitest.Serve(t, h).Run(t, "task", "get", "a")
		if got.Code != 3 || !strings.Contains(got.Err, ": "+name+"\n") {
			t.Errorf("%+v, want %q", got, name)
		}
	}
}

func TestRun_EndsWithThreeIfNoAnswerComes(t *testing.T) {
	sh := clitest.Serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, line := range []string{"task get a", "events", "task logs a -f"} {
		got := sh.Run(t, append(strings.Fields(line), "--request-timeout", "50ms")...)
		if got.Code != 3 || !strings.Contains(got.Err, ": no answer in time\n") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestRun_SaysThatAChangeMayHaveArrived(t *testing.T) {
	const doubt = "; a change may have been made nevertheless\n"
	silent := clitest.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client has gone
		<-r.Context().Done()
	})
	cut := clitest.Serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for _, line := range []string{
		"task submit --type x", "task cancel a", "schedule put a --every 1h --type x", "queue pause q",
	} {
		args := append(strings.Fields(line), "--request-timeout", "50ms")
		if got := silent.Run(t, args...); got.Code != 3 || !strings.Contains(got.Err, ": no answer in time"+doubt) {
			t.Errorf("%s: %+v", line, got)
		}
		if got := cut.Run(t, args...); got.Code != 3 || !strings.Contains(got.Err, ": EOF"+doubt) {
			t.Errorf("%s, and the connection breaks: %+v", line, got)
		}
		args = append(args, "--server", "http://127.0.0.1:1")
		if got := silent.Run(t, args...); got.Code != 3 || !strings.Contains(got.Err, "refused\n") {
			t.Errorf("%s, and nobody is there: %+v", line, got)
		}
	}
	if got := cut.Run(t, "task", "get", "a"); got.Code != 3 || !strings.Contains(got.Err, ": EOF\n") {
		t.Errorf("what only reads: %+v", got)
	}
}

func TestRun_EndsWith130WhenInterrupted(t *testing.T) {
	asked := make(chan struct{})
	sh := clitest.Serve(t, func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() })
	j := sh.Start(t, "task", "get", "a")
	<-asked
	j.Interrupt()
	j.Wait().Expect(t, 130, "", "")
}

func TestRun_NamesTheRequestOfAnInternalError(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/nodes", 500, clitest.Problem(500, wire.Internal, "", "the log says more"))
	s.Pipe().Run(t, "node", "list").Expect(t, 1, "", "dtsctl: the log says more (internal), request id r1\n")
}

func TestRun_TakesTheServerOfTheFlagOrTheEnvironment(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/nodes", 200, wire.NodeList{Nodes: []wire.Node{}})
	sh := s.Pipe()
	sh.Server = "http://127.0.0.1:1"
	sh.Run(t, "--server", s.URL, "node", "list").Expect(t, 0, "", "")
	sh.Run(t, "node", "list", "--server", strings.TrimPrefix(s.URL, "http://")).Expect(t, 0, "", "")
	if got := s.Last().Header.Get("User-Agent"); got != "dtsctl/v1.2.3" {
		t.Errorf("it calls itself %q", got)
	}
}

func TestRun_AcceptsAServerBehindAPath(t *testing.T) {
	var asked string
	sh := clitest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		w.WriteHeader(204)
	})
	sh.Server += "/dts"
	sh.Run(t, "queue", "pause", "q").Expect(t, 0, "q\tpaused\n", "")
	if asked != "/dts/v1/queues/q/pause" {
		t.Errorf("asked %q", asked)
	}
}

func TestVersion_PrintsTheVersion(t *testing.T) {
	clitest.Shell{}.Run(t, "version").Expect(t, 0, "dtsctl v1.2.3\n", "")
}

func TestHelp_IsThereForGroupsAndTopics(t *testing.T) {
	for _, line := range []string{"", "--help", "task", "queue", "node"} {
		got := clitest.Shell{}.Run(t, strings.Fields(line)...)
		if got.Code != 0 || got.Err != "" || !strings.Contains(got.Out, "Available Commands:") {
			t.Errorf("dtsctl %s: %+v", line, got)
		}
	}
	for topic, want := range map[string]string{
		"exit-codes": "cannot be reached", "environment": "DTSCTL_SERVER", "formats": "RFC 3339",
	} {
		if got := (clitest.Shell{}).Run(t, "help", topic); got.Code != 0 || !strings.Contains(got.Out, want) {
			t.Errorf("dtsctl help %s: %+v", topic, got)
		}
	}
}

func TestHelp_ExplainsEveryCommand(t *testing.T) {
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
	check(cli.NewRootCommand(command.NewFactory(nil, printer.New(printer.Options{}), &server.Config{})))
}

// clitest checks that a command asks for nothing else.
func TestCommands_SayWhatTheyAskFor(t *testing.T) {
	local := []string{"version", "completion", "help", "exit-codes", "environment", "formats"}
	asked := map[string]bool{}
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		asks := command.AsksOf(cmd.Annotations)
		if len(asks) == 0 && !cmd.HasSubCommands() && !slices.Contains(local, cmd.Name()) {
			t.Errorf("%s does not say what it asks for", cmd.CommandPath())
		}
		for _, name := range asks {
			asked[name] = true
			if _, ok := control.OperationNamed(name); !ok {
				t.Errorf("%s asks for %q, which is not in the table of operations", cmd.CommandPath(), name)
			}
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" {
				check(sub)
			}
		}
	}
	check(cli.NewRootCommand(command.NewFactory(nil, printer.New(printer.Options{}), &server.Config{})))
	forPrograms := []string{"getLock", "monitor"} // a program asks for the lock that it wants; a browser shows the monitor
	for _, o := range control.Operations() {
		if o.Role != control.Anyone && o.Role != control.Worker && !asked[o.Name] && !slices.Contains(forPrograms, o.Name) {
			t.Errorf("no command asks for %s", o.Name)
		}
	}
}
