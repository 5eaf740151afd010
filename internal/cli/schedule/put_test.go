package schedule_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// aSchedule is a schedule, changed as the test needs it.
func aSchedule(id string, change ...func(*wire.Schedule)) wire.Schedule {
	c := wire.Schedule{
		ID: id, Namespace: "default", Revision: 1, CreatedAt: wire.At(clitest.Now), UpdatedAt: wire.At(clitest.Now), Cursor: wire.At(clitest.Now), NextAt: new(wire.At(clitest.Now.Add(3 * time.Minute))),
		Cron: new("7 * * * *"), Task: wire.TaskTemplate{Type: "shell", Queue: new("default"), Payload: []byte(`{"command":["true"]}`)},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// aPreview is the next ticks of a schedule.
func aPreview(ticks ...wire.UpcomingTick) wire.SchedulePreview {
	return wire.SchedulePreview{Timezone: "Europe/Berlin", Ticks: append([]wire.UpcomingTick{}, ticks...)}
}

func upcoming(tick, local string, change ...func(*wire.UpcomingTick)) wire.UpcomingTick {
	at, err := time.Parse(time.RFC3339, tick)
	if err != nil {
		panic(err)
	}
	u := wire.UpcomingTick{Tick: wire.At(at), Local: local}
	for _, f := range change {
		f(&u)
	}
	return u
}

func TestPut_SendsWhatTheFlagsSay(t *testing.T) {
	const task = `"task":{"payload":{"command":["true"]},"type":"shell"}`
	for name, c := range map[string]struct {
		line []string
		want string
	}{
		"a cron expression":  {[]string{"--cron", "H 2 * * 1,3", "--", "true"}, `{"cron":"H 2 * * 1,3",` + task + `}`},
		"an interval":        {[]string{"--every", "90s", "--", "true"}, `{"every":"1m30s",` + task + `}`},
		"several rules":      {[]string{"--cron", "@daily", "--cron", "5 * * * *", "--every", "1h", "--", "true"}, `{"specs":[{"cron":"@daily"},{"cron":"5 * * * *"},{"every":"1h0m0s"}],` + task + `}`},
		"flags of a command": {[]string{"--every", "1s", "--env", "A=b", "--dir", "/tmp", "--", "ls", "-l", "--cron"}, `{"every":"1s","task":{"payload":{"command":["ls","-l","--cron"],"env":{"A":"b"},"dir":"/tmp"},"type":"shell"}}`},
		"a URL": {
			[]string{"--every", "1s", "--http", "https://e.x", "-X", "GET", "-H", "A: b", "--success-codes", "204"},
			`{"every":"1s","task":{"payload":{"method":"GET","url":"https://e.x","headers":{"A":"b"},"success_codes":[204]},"type":"http"}}`,
		},
		"a URL that pauses its keys": {
			[]string{"--every", "1s", "--http", "https://e.x", "--limit-key", "a", "--pause-keys"},
			`{"every":"1s","task":{"limit_key":"a","payload":{"url":"https://e.x","pause":"key"},"type":"http"}}`,
		},
		"a gRPC server": {
			[]string{
				"--every", "1s", "--grpc", "a:1", "--method", "b.C/D", "-d", `{"n": 1}`, "--metadata", "Authorization: x", "--tls-server-name", "b",
				"--descriptor-file", "b.binpb", "--retry-codes", "NOT_FOUND",
			},
			`{"every":"1s","task":{"payload":{"target":"a:1","method":"b.C/D","request":{"n":1},"metadata":{"Authorization":"x"},` +
				`"tls":{"server_name":"b"},"descriptor_file":"b.binpb","retry_codes":["NOT_FOUND"]},"type":"grpc"}}`,
		},
		"any type": {[]string{"--every", "1s", "--type", "x", "--payload", `{"a": 1}`}, `{"every":"1s","task":{"payload":{"a":1},"type":"x"}}`},
		"the misfire policy": {
			[]string{"--every", "1s", "--misfire", "all", "--misfire-window", "6h", "--misfire-max", "5", "--", "true"},
			`{"every":"1s","misfire":{"max":5,"policy":"all","window":"6h0m0s"},` + task + `}`,
		},
		"the times": {
			[]string{"--every", "1s", "--start-at", "2026-03-04", "--end-at", "2026-03-04T05:06:07Z", "--exclude", "2026-12-25", "--exclude", "* 1,2 * * *", "--timezone", "UTC", "--", "true"},
			`{"end_at":"2026-03-04T05:06:07.000Z","every":"1s","exclude":["2026-12-25","* 1,2 * * *"],"start_at":"2026-03-04T00:00:00.000Z",` + task + `,"timezone":"UTC"}`,
		},
		"the rest": {
			[]string{"--every", "1s", "--max-runs", "3", "--jitter", "5s", "--overlap", "queue", "--pause-on-failure", "2", "--paused=false", "--owner", "me", "--description", "d", "--label", "a=b", "--", "true"},
			`{"description":"d","every":"1s","jitter":"5s","labels":{"a":"b"},"max_runs":3,"overlap":"queue","owner":"me","pause_on_failure":2,"paused":false,` + task + `}`,
		},
		"the tasks": {
			[]string{"--every", "1s", "--queue", "q", "--timeout", "5s", "--max-attempts", "2", "--retry-delays", "1s", "--retention", "1h", "--task-owner", "me", "--task-label", "a=b", "--", "true"},
			`{"every":"1s","task":{"labels":{"a":"b"},"owner":"me","payload":{"command":["true"]},"queue":"q","retention":"1h0m0s","retry":{"delays":["1s"],"max_attempts":2},"timeout":"5s","type":"shell"}}`,
		},
		"the turn of the tasks": {
			[]string{
				"--every", "1s", "--priority", "3", "--fair-key", "k", "--fair-weight", "2", "--limit-key", "b,a", "--", "true",
			},
			`{"every":"1s","task":{"fair_key":"k","fair_weight":2,"limit_key":"b,a","payload":{"command":["true"]},` +
				`"priority":3,"type":"shell"}}`,
		},
		"the nodes of the tasks": {
			[]string{"--every", "1s", "--select", "gpu", "--prefer", "2:zone=eu", "--route", "round", "--", "true"},
			`{"every":"1s","task":{"payload":{"command":["true"]},"prefer":[{"select":"zone=eu","weight":2}],` +
				`"route":{"by":"round"},"select":"gpu","type":"shell"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.Start(t)
			s.On("GET /v1/schedules/{id}", 404, clitest.Problem(404, wire.ScheduleNotFound, "", "no such schedule"))
			takePut(s, new("created"), new(aSchedule("a")))
			s.Pipe().Run(t, append([]string{"schedule", "put", "a"}, c.line...)...).Expect(t, 0, "a\tcreated\t1\t2026-01-02T15:07:05.000Z\n", "")
			if got := s.Last(); got.Body != c.want || got.Line != "PUT /v1/schedules/a" {
				t.Errorf("sent %s\n%s, want\n%s", got.Line, got.Body, c.want)
			}
		})
	}
}

func TestPut_IsConditional(t *testing.T) {
	s := clitest.Start(t)
	s.On("PUT /v1/schedules/{id}", 412, clitest.Problem(412, wire.ScheduleChanged, "", "another revision is in force"))
	args := []string{"schedule", "put", "a", "--every", "1s", "-o", "json", "-n", "x"}
	s.Pipe().Run(t, append(args, "--if-match", "3", "--", "true")...).Expect(t, 1, "", "dtsctl: another revision is in force (schedule_changed)\n")
	if got := s.Last(); got.Line != "PUT /v1/schedules/a?namespace=x" || got.Header.Get("If-Match") != `"3"` || got.Header.Get("If-None-Match") != "" {
		t.Errorf("%s with %v", got.Line, got.Header)
	}
	s.Pipe().Run(t, append(args, "--if-absent", "--", "true")...).Expect(t, 1, "", "dtsctl: another revision is in force (schedule_changed)\n")
	if got := s.Last(); got.Header.Get("If-None-Match") != "*" || got.Header.Get("If-Match") != "" {
		t.Errorf("%v", got.Header)
	}
	if got := s.Lines(); len(got) != 2 {
		t.Errorf("asked %q", got)
	}
}

func TestPut_WarnsOfALineForAShell(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 404, clitest.Problem(404, wire.ScheduleNotFound, "", "no such schedule"))
	takePut(s, new("created"), new(aSchedule("a")))
	got := s.Pipe().Run(t, "schedule", "put", "a", "--every", "1s", "--", "ls | wc")
	if got.Code != 0 || !strings.HasSuffix(got.Err, "write: -- sh -c 'ls | wc'\n") {
		t.Errorf("got %+v", got)
	}
}

// takePut answers every PUT of a schedule, and says that it came to this.
func takePut(s *clitest.Stub, change *string, after *wire.Schedule) {
	s.Handle("PUT /v1/schedules/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Dts-Change", *change)
		status := http.StatusOK
		if *change == "created" {
			status = http.StatusCreated
		}
		s.Reply(w, status, after)
	})
}

func TestPut_TellsWhatChanged(t *testing.T) {
	s := clitest.Start(t)
	before := aSchedule("a", func(c *wire.Schedule) { c.Labels = &wire.Labels{"team": "x"}; c.Paused = true })
	after, change := before, "unchanged"
	s.Handle("GET /v1/schedules/{id}", func(w http.ResponseWriter, _ *http.Request) { s.Reply(w, 200, before) })
	takePut(s, &change, &after)
	s.On("GET /v1/schedules/{id}/next", 200, aPreview(
		upcoming("2026-01-02T15:07:00Z", "2026-01-02T16:07:00.000+01:00"),
		upcoming("2026-01-02T16:07:00.5Z", "2026-01-02T17:07:00.500+01:00", func(u *wire.UpcomingTick) { u.Note = new("odd") }),
	))
	const soon = "  Fri 2026-01-02 16:07:00 +01:00    in 3 minutes\n  Fri 2026-01-02 17:07:00.5 +01:00  in 1 hour     odd\n"
	put := []string{"schedule", "put", "a", "--cron", "7 * * * *", "--", "true"}
	s.Pipe().Run(t, put...).Expect(t, 0, "a\tunchanged\t1\t2026-01-02T15:07:05.000Z\n", "")
	s.Terminal().Run(t, put...).Expect(t, 0, "a unchanged, revision 1, "+printer.Yellow+"paused"+printer.Reset+"\n"+soon, "")

	// Two put the same at the same time: the other one has created it, or changed it before.
	change, before.Revision = "created", 1
	s.Pipe().Run(t, put...).Expect(t, 0, "a\tcreated\t1\t2026-01-02T15:07:05.000Z\n", "")
	change, after.Revision = "unchanged", 2
	s.Pipe().Run(t, put...).Expect(t, 0, "a\tunchanged\t2\t2026-01-02T15:07:05.000Z\n", "")
	s.Terminal().Run(t, put...).Expect(t, 0, "a unchanged, revision 2, "+printer.Yellow+"paused"+printer.Reset+"\n"+soon, "")
	change, after.Revision, after.Paused = "changed", 3, false
	s.Terminal().Run(t, put...).Expect(t, 0, "a changed, now revision 3\n"+soon, "")

	change = "changed"
	after = aSchedule("a", func(c *wire.Schedule) {
		c.Revision, c.Cron, c.Jitter = 2, new("8 * * * *"), new("5s")
		c.Task.Payload = []byte(`{"command":["false"]}`)
	})
	s.Pipe().Run(t, put...).Expect(t, 0, "a\tchanged\t2\t2026-01-02T15:07:05.000Z\n", "")
	s.Terminal().Run(t, put...).Expect(t, 0, "a changed, now revision 2, no longer paused\n"+
		"  cron                  7 * * * *  ->  8 * * * *\n"+
		"  jitter                -          ->  5s\n"+
		"  labels.team           x          ->  -\n"+
		"  task.payload.command  [\"true\"]   ->  [\"false\"]\n"+soon, "")
	s.Pipe().Run(t, append(put[:5:5], "-o", "json", "--", "true")...).Expect(t, 0, clitest.JSON(t, after)+"\n", "")
}

func TestPut_SucceedsEvenIfTheNextTicksAreUnknown(t *testing.T) {
	s := clitest.Start(t)
	s.On("GET /v1/schedules/{id}", 404, clitest.Problem(404, wire.ScheduleNotFound, "", "no such schedule"))
	takePut(s, new("created"), new(aSchedule("a")))
	s.On("GET /v1/schedules/{id}/next", 503, clitest.Problem(503, wire.Unavailable, "", "Redis is away"))
	s.Terminal().Run(t, "schedule", "put", "a", "--every", "1s", "--", "true").
		Expect(t, 0, "a created\n", "dtsctl: cannot show the next ticks: Redis is away (unavailable)\n")
}

func TestPut_RefusesBadUsage(t *testing.T) {
	put := func(args ...string) []string { return append([]string{"schedule", "put"}, args...) }
	for want, args := range map[string][]string{
		"ID is missing":             put("--every", "1s", "--", "true"),
		`ID: ".." cannot be a name`: put("..", "--every", "1s", "--", "true"),
		`"true" is one argument too many; a command stands behind --`:               put("a", "true", "--every", "1s"),
		"it would never tick: give --cron or --every":                               put("a", "--", "true"),
		"nothing to run: give -- COMMAND, --http URL, --grpc TARGET or --type TYPE": put("a", "--every", "1s"),
		"-- COMMAND and --http URL: give one of them":                               put("a", "--every", "1s", "--http", "u", "--", "true"),
		"--method goes with --grpc TARGET or --http URL, not with -- COMMAND":       put("a", "--every", "1s", "-X", "GET", "--", "true"),
		"--header goes with --http URL, not with --grpc TARGET":                     put("a", "--every", "1s", "-H", "a: b", "--grpc", "a:1"),
		"--tls goes with --grpc TARGET, not with --http URL":                        put("a", "--every", "1s", "--tls", "--http", "u"),
		"--grpc TARGET: --method is missing, as package.Service/Method":             put("a", "--every", "1s", "--grpc", "a:1"),
		"--env goes with -- COMMAND, not with --http URL":                           put("a", "--every", "1s", "--env", "A=b", "--http", "u"),
		"--payload goes with --type TYPE, not with --http URL":                      put("a", "--every", "1s", "--payload", "1", "--http", "u"),
		"--if-match and --if-absent: give one of them, not both":                    put("a", "--every", "1s", "--if-match", "1", "--if-absent", "--", "true"),
		"--if-match: 0 is less than 1":                                              put("a", "--every", "1s", "--if-match", "0", "--", "true"),
		"--every: -1h0m0s is negative":                                              put("a", "--every", "-1h", "--", "true"),
		"--jitter: -1s is negative":                                                 put("a", "--every", "1h", "--jitter", "-1s", "--", "true"),
		`--label: "x" must be NAME=VALUE`:                                           put("a", "--every", "1s", "--label", "x", "--", "true"),
		`--task-label: "x" must be NAME=VALUE`:                                      put("a", "--every", "1s", "--task-label", "x", "--", "true"),
		`--end-at: "soon" is not a time; write 2026-01-02T15:04:05Z, or 2026-01-02, "2026-01-02 15:04" or "2026-01-02 15:04:05" for a time in Asia/Tokyo`: put(
			"a", "--every", "1s", "--timezone", "Asia/Tokyo", "--end-at", "soon", "--", "true"),
		`--start-at: "2026-11-27T09:00:00" is not a time; write 2026-01-02T15:04:05Z, or 2026-01-02, "2026-01-02 15:04" or "2026-01-02 15:04:05" for a time in Asia/Tokyo`: put(
			"a", "--every", "1s", "--timezone", "Asia/Tokyo", "--start-at", "2026-11-27T09:00:00", "--", "true"),
		`--start-at: "soon" is not a time; write 2026-01-02T15:04:05Z, or 2026-01-02, "2026-01-02 15:04" or "2026-01-02 15:04:05" for local time`: put("a", "--every", "1s", "--start-at", "soon", "--", "true"),
	} {
		got := clitest.Shell{Server: "http://127.0.0.1:1"}.Run(t, args...)
		if first, _, _ := strings.Cut(got.Err, "\n"); got.Code != 2 || first != "dtsctl: "+want {
			t.Errorf("%q: code %d\n%s\nwant %s", args, got.Code, got.Err, want)
		}
	}
}

func TestPut_ReadsTimesInTheZoneOfTheSchedule(t *testing.T) {
	for zone, want := range map[string]string{
		"--timezone=Asia/Tokyo":    `"end_at":"2026-06-30T15:00:00.000Z","every":"1h0m0s","start_at":"2026-01-02T00:30:00.000Z"`,
		"--timezone=UTC":           `"end_at":"2026-07-01T00:00:00.000Z","every":"1h0m0s","start_at":"2026-01-02T09:30:00.000Z"`,
		"--timezone=Europe/Berlin": `"end_at":"2026-06-30T22:00:00.000Z","every":"1h0m0s","start_at":"2026-01-02T08:30:00.000Z"`,
		"--overlap=skip":           `"end_at":"2026-06-30T23:00:00.000Z","every":"1h0m0s","overlap":"skip","start_at":"2026-01-02T08:30:00.000Z"`, // local: CET
	} {
		s := clitest.Start(t)
		s.On("PUT /v1/schedules/{id}", http.StatusOK, aSchedule("a"))
		s.On("GET /v1/schedules/{id}", http.StatusOK, aSchedule("a"))
		got := s.Pipe().Run(t, "schedule", "put", "a", "--every", "1h", zone, "--start-at", "2026-01-02 09:30", "--end-at", "2026-07-01", "--", "true")
		if body := s.LastOf("PUT").Body; got.Code != 0 || !strings.Contains(body, want) {
			t.Errorf("%s: %+v, sent %s", zone, got, body)
		}
	}
	s := clitest.Start(t)
	s.On("PUT /v1/schedules/{id}", http.StatusOK, aSchedule("a"))
	s.On("GET /v1/schedules/{id}", http.StatusOK, aSchedule("a"))
	s.Pipe().Run(t, "schedule", "put", "a", "--every", "1h", "--timezone", "Asia/Tokyo", "--start-at", "2026-01-02T09:30:00+01:00", "--", "true")
	if body := s.LastOf("PUT").Body; !strings.Contains(body, `"start_at":"2026-01-02T08:30:00.000Z"`) {
		t.Errorf("with an offset: sent %s", body)
	}
}
