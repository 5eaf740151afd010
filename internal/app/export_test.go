package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/api/wire/wiretest"
	"github.com/dts-sched/dts/internal/cli/clitest"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/testkit"
)

// Whatever is put, its export changes nothing where it comes from. An empty installation gets equal definitions from
// it, and exports the same bytes.
func TestExport_RoundTripsAnyDefinition(t *testing.T) {
	t.Parallel()
	from, to := startAPI(t), startAPI(t)
	random := rand.New(rand.NewPCG(29, 5))
	put := 0
	deep := wire.ScheduleDefinition{Every: new("1h"), Task: wire.TaskTemplate{
		Type: "custom", Payload: json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100)),
	}}
	if from.put("deep", deep) {
		put++
	}
	for i := range 160 {
		if from.put(fmt.Sprintf("s%04d", i), anyDefinition(random)) {
			put++
		}
	}
	if put < 40 {
		t.Fatalf("only %d definitions were accepted", put)
	}
	for _, format := range []string{"yaml", "json"} {
		exported := from.dtsctl("", "schedule", "export", "-o", format)
		from.expectApplied(exported, "unchanged", put)
		if format == "yaml" {
			to.expectApplied(exported, "created", put)
		}
		to.expectApplied(exported, "unchanged", put)
		if again := to.dtsctl("", "schedule", "export", "-o", format); again != exported {
			t.Errorf("%s differs:\n%s", format, firstDifference(exported, again))
		}
	}
	before, after := from.definitions(), to.definitions()
	for id, definition := range before {
		if after[id] != definition {
			t.Errorf("%s was\n%s\nis\n%s", id, definition, after[id])
		}
	}
}

// installation is a node that answers, and creates no tasks.
type installation struct {
	clitest.Shell
	client *rest.Client
	t      *testing.T
}

func startAPI(t *testing.T) *installation {
	t.Helper()
	c := settings("")
	c.Roles = config.Roles{config.RoleAPI}
	address := "http://" + run(t, Options{Config: c, Log: slog.New(slog.DiscardHandler)}).address
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	api, err := rest.New(rest.Options{Address: address, Transport: transport})
	testkit.Must(t, err)
	return &installation{clitest.Shell{Server: address, Transport: transport}, api, t}
}

// put reports whether a definition was accepted: some of them have times that do not fit together.
func (i *installation) put(id string, d wire.ScheduleDefinition) bool {
	i.t.Helper()
	body, err := rest.Body(d)
	testkit.Must(i.t, err)
	params := &client.PutScheduleParams{}
	response, err := i.client.PutScheduleWithBodyWithResponse(i.t.Context(), id, params, rest.JSONType, body)
	_, err = rest.Read[wire.Schedule](response, err)
	if err != nil && (!rest.IsRefusal(err) || rest.RefusalIn(err).Code != wire.Invalid) {
		i.t.Fatal(err)
	}
	return err == nil
}

// dtsctl returns the output of a command that succeeds.
func (i *installation) dtsctl(stdin string, args ...string) string {
	i.t.Helper()
	i.Stdin = stdin
	got := i.Run(i.t, args...)
	if got.Code != 0 {
		i.t.Fatalf("%q: code %d, %.2000s", args, got.Code, got.Err)
	}
	return got.Out
}

func (i *installation) expectApplied(file, outcome string, count int) {
	i.t.Helper()
	lines := strings.Split(strings.TrimSuffix(i.dtsctl(file, "apply", "-f", "-"), "\n"), "\n")
	for _, line := range lines {
		if !strings.Contains(line, "\t"+outcome+"\t") {
			i.t.Errorf("%s, not %s", line, outcome)
		}
	}
	if len(lines) != count {
		i.t.Errorf("%d lines, want %d", len(lines), count)
	}
}

// definitions returns what the server says of its schedules without what differs between two installations.
func (i *installation) definitions() map[string]string {
	i.t.Helper()
	var list struct {
		Schedules []map[string]json.RawMessage `json:"schedules"`
	}
	testkit.Must(i.t, json.Unmarshal([]byte(i.dtsctl("", "schedule", "list", "--all", "-o", "json")), &list))
	all := make(map[string]string)
	for _, s := range list.Schedules {
		id := string(s["id"])
		for _, name := range []string{"created_at", "updated_at", "cursor", "next_at", "paused_at", "ended_at", "warnings"} {
			delete(s, name)
		}
		raw, err := wire.Encode(s)
		testkit.Must(i.t, err)
		all[id] = string(raw)
	}
	return all
}

// firstDifference returns the lines around the first byte that differs.
func firstDifference(a, b string) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	around := func(s string) string { return s[max(0, at-200):min(len(s), at+200)] }
	return around(a) + "\n---\n" + around(b)
}

// anyDefinition returns a definition with texts and a payload that YAML may mistake.
func anyDefinition(r *rand.Rand) wire.ScheduleDefinition {
	d := wiretest.Definition(r)
	d.EndAt = nil // it would often be before the start
	if r.IntN(2) == 0 {
		d.StartAt, d.Jitter = nil, nil
	}
	if r.IntN(4) == 0 {
		d.Paused = new(r.IntN(2) == 0)
	}
	if r.IntN(2) == 0 {
		d.Description, d.Owner = new(anyText(r)), new(anyText(r))
		d.Labels = &wire.Labels{"a" + anyText(r): anyText(r), anyText(r): ""}
	}
	switch r.IntN(6) {
	case 0:
		d.Task.Queue = new("default")
	case 1:
		d.Task.Payload = nil
	case 2:
		d.Task.Payload = json.RawMessage(" {} ")
	}
	if r.IntN(4) > 0 {
		var b bytes.Buffer
		writeValue(r, &b, 0)
		d.Task.Type, d.Task.Payload = "custom", b.Bytes()
	}
	return d
}

// oddTexts are texts that YAML writes or reads in a way of its own.
var oddTexts = []string{
	"", " ", "~", "null", "Null", "true", "yes", "on", "y", "0815", "0x1F", "0o17", "0b1", "1_000", "1e3", "1e400",
	".5", ".inf", "-.INF", ".nan", "12:30:45",
	"2026-01-01", "2026-01-01T00:00:00Z", "<<", "=", "!", "!!int 1", "&a", "*a", "%", "@x", "`x`", "- a", "-", "---",
	"--- a", "...", "? a", ": a", "a: b", "a:",
	"#a", "a #b", "a\n", "\na", "\n", "a\n\n", " a\n b\n", "\n  a\nb", "a \nb", "a\tb", "\ta", "a\r\nb", "\r",
	"\u0000", "\u001b[31m", "\u0085", "\u2028x", "\ufeff",
	"\ufeffa", "\u00a0", "\U0001f600", "\ufffe", "\u007f", "'", "\"", "'a'", "\"a\"", "\\", "{a}", "[a]", "a, b", "|",
	">", "|\n a", "|-", "&amp;<b>", "\\u0026", "- \n", "Größe",
	strings.Repeat("a ", 200), strings.Repeat("k", 150),
	strings.Repeat("x", 90) + "\n" + strings.Repeat("y z ", 60), "  indented\n    more\nless\n",
}

func anyText(r *rand.Rand) string {
	text := oddTexts[r.IntN(len(oddTexts))]
	if r.IntN(3) == 0 {
		text += oddTexts[r.IntN(len(oddTexts))]
	}
	return text
}

var oddNumbers = []string{
	"0", "-0", "1", "-0.50", "1.0", "1e3", "1E+5", "1e-7", "1e400", "-1E-400", "12345678901234567890",
	"123456789012345678901234567890.5", "0.1e1", "0e0",
}

// writeValue writes some JSON, in which objects have each name once.
func writeValue(r *rand.Rand, b *bytes.Buffer, depth int) {
	kind := r.IntN(8)
	if depth > 4 {
		kind = 4 + r.IntN(4)
	}
	switch kind {
	case 0, 1:
		writeObject(r, b, depth)
	case 2, 3:
		b.WriteByte('[')
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			writeValue(r, b, depth+1)
		}
		b.WriteByte(']')
	case 4:
		b.WriteString(oddNumbers[r.IntN(len(oddNumbers))])
	case 5:
		b.WriteString([]string{"true", "false", "null"}[r.IntN(3)])
	default:
		writeText(b, anyText(r))
	}
}

func writeObject(r *rand.Rand, b *bytes.Buffer, depth int) {
	b.WriteByte('{')
	seen := make(map[string]bool)
	for range r.IntN(4) {
		name := anyText(r)
		if seen[name] {
			continue
		}
		if len(seen) > 0 {
			b.WriteByte(',')
		}
		seen[name] = true
		writeText(b, name)
		b.WriteByte(':')
		writeValue(r, b, depth+1)
	}
	b.WriteByte('}')
}

func writeText(b *bytes.Buffer, text string) {
	raw, _ := wire.Encode(text) // a text always can be encoded
	b.Write(raw)
}
