package test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// answered are the questions that docs/questions.md answers.
var answered = strings.Fields("1 2 3 4 5 6 7 8 9 10 11 15 16 17 18 19 20")

// scene is a situation, and the commands of the page that are tried in it.
type scene struct {
	name     string
	reach    func(*questioned)
	commands []string
	loose    bool // all numbers of the output depend on the run
}

// scenes come one after the other, in one fleet. A command that is ID has the id of the node that was killed.
var scenes = []scene{
	{name: "two nodes", reach: (*questioned).startNodes, commands: []string{
		"dtsctl task list -A --state running",
		"dtsctl node list",
	}},
	{name: "a node is killed", reach: (*questioned).killOne, commands: []string{
		"dtsctl node get NODE",
	}},
	{name: "tasks and schedules wait", reach: (*questioned).haveTasksWait, commands: []string{
		"dtsctl task why mail-1",
		"dtsctl task why video-1",
		"dtsctl task why report-1",
		"dtsctl task why order-1",
		"dtsctl task why reminder-1",
		"dtsctl schedule why slow",
		"dtsctl schedule why held",
		"dtsctl queue list",
		"dtsctl task get order-2",
	}},
	{name: "an error is repeated", reach: (*questioned).repeatError, commands: []string{
		"dtsctl task failures",
		"dtsctl queue stats",
		"dtsctl queue stats --since 5m",
	}},
	{name: "schedules have a past", reach: (*questioned).havePast, commands: []string{
		"dtsctl schedule get nightly",
		"dtsctl schedule history nightly",
		"dtsctl task logs cleanup-1",
		"dtsctl schedule list -A --missed",
		"dtsctl schedule list -A --stale=1s",
		"dtsctl schedule forecast -A --within 15m",
		"dtsctl schedule next nightly --cron '30 2 * * *' --timezone Europe/Berlin --count 2 --after 2027-03-01T00:00:00Z",
		"dtsctl doctor --check eviction,persistence,replication,memory,latency",
	}},
	{name: "memory", reach: func(*questioned) {}, loose: true, commands: []string{
		"dtsctl memory",
	}},
	{name: "all slots hang", reach: (*questioned).hangSlots, commands: []string{
		"dtsctl task why next-1",
		"dtsctl status",
	}},
	{name: "Redis is away", reach: (*questioned).loseRedis, commands: []string{
		"dtsctl doctor",
	}},
}

// questioned is the fleet that the questions are about.
type questioned struct {
	t     *testing.T
	redis *redistest.Server
	dying *node // is killed on the way
	front *node // answers
}

// Each command of docs/questions.md prints what the page says, but for what differs between two runs.
func TestQuestions_AreAnsweredByOneCommandEach(t *testing.T) {
	t.Parallel()
	text := readQuestions(t)
	checkQuestions(t, text, answered)
	answers := answersOf(text)
	q := &questioned{t: t, redis: redistest.Start(t)}
	tried := map[string]bool{}
	for _, s := range scenes {
		s.reach(q)
		for _, command := range s.commands {
			tried[command] = true
			q.try(answers, command, s.loose)
		}
	}
	for _, a := range answers {
		if !tried[nodeID.ReplaceAllString(a.command, "NODE")] {
			t.Errorf("no situation is there for $ %s", a.command)
		}
	}
	if *update {
		testkit.Must(t, os.WriteFile(questionsPage, []byte(rewrite(text, answers)), 0o600))
	}
}

var nodeID = regexp.MustCompile(`\b(vm-[a-z2-7]{8}|NODE)\b`)

// try runs a command of the page, and compares what it prints. With -update, it takes that instead.
func (q *questioned) try(answers []*answer, command string, loose bool) {
	q.t.Helper()
	i := slices.IndexFunc(answers, func(a *answer) bool { return nodeID.ReplaceAllString(a.command, "NODE") == command })
	if i < 0 {
		q.t.Errorf("the page does not have $ %s", command)
		return
	}
	run := command
	if q.dying != nil {
		run = strings.ReplaceAll(command, "NODE", q.dying.id)
	}
	got := q.print(run)
	if *update {
		answers[i].command, answers[i].output = q.onVM(run), got
		return
	}
	answers[i].compare(q.t, got, loose)
}

// print is what a command prints on a terminal, the messages at the end.
func (q *questioned) print(command string) string {
	q.t.Helper()
	words, err := wordsOf(command)
	testkit.Must(q.t, err)
	var out, messages bytes.Buffer
	cli.Run(q.t.Context(), cli.System{
		In: strings.NewReader(""), Out: &out, Err: &messages, OutIsTerminal: true, ErrIsTerminal: true, Width: 120,
		Getenv: func(name string) string {
			return map[string]string{"DTSCTL_SERVER": q.front.url, "NO_COLOR": "1"}[name]
		},
		Now: time.Now, Zone: time.UTC, Version: "devel", Caller: "ann@laptop",
	}, words[1:])
	var b strings.Builder
	for line := range strings.Lines(q.onVM(out.String() + messages.String())) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// onVM returns a text as if the tests ran on a host of the name vm.
func (q *questioned) onVM(text string) string {
	host, err := os.Hostname()
	testkit.Must(q.t, err)
	return regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(text, "vm")
}

// do runs commands that must not fail.
func (q *questioned) do(commands ...string) {
	q.t.Helper()
	for _, command := range commands {
		if out := q.print("dtsctl " + command); strings.Contains(out, "dtsctl:") {
			q.t.Fatalf("dtsctl %s: %s", command, out)
		}
	}
}

// until runs a command until it prints words.
func (q *questioned) until(command string, words ...string) {
	q.t.Helper()
	last := ""
	defer func() {
		if q.t.Failed() {
			q.t.Logf("dtsctl %s prints\n%s", command, last)
		}
	}()
	await(q.t, 30*time.Second, fmt.Sprintf("dtsctl %s prints %q", command, words), func() bool {
		last = q.print("dtsctl " + command)
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(last, word) })
	})
}

// startNodes has two nodes, and tasks that run on the first.
func (q *questioned) startNodes() {
	flags := []string{"--concurrency", "4", "--lease-ttl", "1s", "--heartbeat", "300ms", "--queues", "default=3,mail=1"}
	q.dying = startNode(q.t, q.redis.URL(), flags...)
	q.front = q.dying
	q.do("task submit --type noop --id cleanup-1 --retention 1ms")
	q.do(`task submit --type noop --id import-1 --payload '{"sleep": "1h"}'`)
	q.do(`task submit --type noop --id import-2 --payload '{"sleep": "1h"}' -n shop`)
	q.until("task list -A --state running", "import-1", "import-2")
	q.front = startNode(q.t, q.redis.URL(), flags...)
	q.until("node list", q.dying.id, q.front.id)
}

// killOne kills a node, whose tasks begin again on the other.
func (q *questioned) killOne() {
	q.dying.kill()
	q.until("node get "+q.dying.id, "dead", "2 attempts")
	q.until("task list -A --state running", "import-1", "import-2")
}

// haveTasksWait has a task for each thing that can hold it up, but for slots.
func (q *questioned) haveTasksWait() {
	q.do("queue pause mail --note 'the mail server moves'")
	q.do("task submit --type noop --queue mail --id mail-1")
	q.do("task submit --type noop --queue video --id video-1")
	q.do("task submit --type report --id report-1")
	q.do(`task submit --type noop --id order-1 --payload '{"fail": "no such host"}' --retry-delays 1h`)
	q.do("task submit --type noop --id reminder-1 --delay 10m")
	q.do("task submit --type noop --id order-2 --delay 10m", "task cancel order-2 --note 'the customer withdrew it'")
	q.do(`schedule put slow --every 1s --overlap queue --type noop --payload '{"sleep": "1h"}'`)
	q.do("queue limit video 1", "schedule put held --every 1s --queue video --type noop")
	q.until("task why order-1", "retry")
	q.until("schedule why slow", "overlap")
	q.until("schedule why held", "queue_full")
}

// repeatError has 500 tasks fail with errors that differ by numbers only.
func (q *questioned) repeatError() {
	var tasks []wire.Submission
	for i := range 500 {
		tasks = append(tasks, wire.Submission{
			Type: "noop", Retry: &wire.Retry{MaxAttempts: ptr(1)},
			Payload: fmt.Appendf(nil, `{"fail": "order %d: payment %d refused by 10.0.0.%d"}`, i, i*7919, i%20),
		})
	}
	q.front.submit(tasks...)
	await(q.t, 30*time.Second, "500 failures are counted", func() bool {
		answer, err := q.front.ListFailuresWithResponse(q.t.Context(), &client.ListFailuresParams{})
		testkit.Must(q.t, err)
		return answer.JSON200 != nil && len(answer.JSON200.Failures) > 1 && answer.JSON200.Failures[0].Count == 500
	})
}

// havePast has schedules that were changed, paused, missed ticks and failed, and a task that is gone.
func (q *questioned) havePast() {
	q.do("schedule put gaps --every 1s --misfire skip --misfire-window 1s --type noop", "schedule pause gaps")
	q.do(`schedule put feed -n shop --every 1s --max-attempts 1 --type noop --payload '{"fail": "no such host"}'`)
	q.do("schedule put nightly --cron '30 2 * * *' --timezone Europe/Berlin --type noop")
	q.do("schedule put nightly --cron '0 4 * * *' --timezone Europe/Berlin --type noop --pause-on-failure 3")
	q.do("schedule pause nightly --note 'the disk is full'")
	q.until("task logs cleanup-1", "deleted")
	q.until("schedule list -n shop --stale=1s", "feed")
	q.do("schedule resume gaps")
	q.until("schedule list --missed", "gaps")
}

// hangSlots takes all slots with tasks that do not end.
func (q *questioned) hangSlots() {
	q.do(`task submit --type noop --id hangs-1 --payload '{"sleep": "1h"}'`)
	q.until("task list --state running", "hangs-1")
	q.do("task submit --type noop --id next-1")
	q.until("task why next-1", "slots_taken")
	q.until("status", "queue_unserved", "type_unserved", "node_died", "queue_paused")
}

func (q *questioned) loseRedis() {
	q.redis.Kill()
	q.until("status", "redis_silent")
}
