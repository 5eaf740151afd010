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
var answered = strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20")

// scene is a situation, and the commands of the page that are tried in it.
type scene struct {
	name     string
	reach    func(*questioned)
	commands []trial
}

// trial is a command of the page. The word NODE in it stands for the id of the node that is killed.
type trial struct {
	command string
	differs differs
}

// differs is what is different between two runs, beside times, ids and amounts of memory.
type differs int

const (
	nothing differs = iota
	order           // of the lines
	numbers         // all numbers, and the order of the lines
)

// fleets are the scenes that come one after the other in a fleet. Fleets run beside each other.
var fleets = map[string][]scene{
	"two nodes": {
		{"they run tasks", (*questioned).startNodes, []trial{
			{"dtsctl task list -A --state running", order},
			{"dtsctl node list", order},
		}},
		{"tasks wait and fail", (*questioned).haveTasksWait, []trial{
			{"dtsctl task why mail-1", nothing},
			{"dtsctl task why video-1", nothing},
			{"dtsctl task why report-1", nothing},
			{"dtsctl task why order-1", nothing},
			{"dtsctl task why reminder-1", nothing},
			{"dtsctl queue list", numbers},
			{"dtsctl task get order-2", nothing},
			{"dtsctl task failures -A", nothing},
			{"dtsctl task retry --state failed --error 'payment # refused' --since 1h --spread 10m --dry-run", numbers},
			{"dtsctl task cancel --queue mail --dry-run", nothing},
			{"dtsctl task cancel --label order=4711 --dry-run", nothing},
			{"dtsctl task list -A --label order=4711", nothing},
			{"dtsctl queue stats", nothing},
			{"dtsctl queue stats --since 5m", nothing},
		}},
		{"a node is killed, and schedules have a past", (*questioned).killOne, []trial{
			{"dtsctl node get NODE", order},
			{"dtsctl schedule why slow", nothing},
			{"dtsctl schedule why held", nothing},
			{"dtsctl schedule get nightly", nothing},
			{"dtsctl schedule history nightly", nothing},
			{"dtsctl schedule list -A --missed", nothing},
			{"dtsctl schedule list -A --stale=1s", nothing},
			{"dtsctl schedule forecast -A --within 15m", numbers},
			{"dtsctl schedule next nightly --cron '30 2 * * *' --timezone Europe/Berlin --after 2027-03-21T00:00:00Z", nothing},
			{"dtsctl task logs cleanup-1", nothing},
			{"dtsctl memory", numbers},
			{"dtsctl doctor --check eviction,persistence,replication,memory,latency", nothing},
		}},
		{"all slots hang", (*questioned).hangSlots, []trial{
			{"dtsctl task why next-1", nothing},
			{"dtsctl status", numbers},
		}},
	},
	"a node with free slots": {
		{"a limit and a selector hold tasks up", (*questioned).holdUp, []trial{
			{"dtsctl task why import-4", nothing},
			{"dtsctl task why render-1", nothing},
		}},
		{"the node is cordoned", (*questioned).cordon, []trial{
			{"dtsctl task why import-5", nothing},
		}},
	},
	"a node without Redis": {
		{"Redis is away", (*questioned).loseRedis, []trial{
			{"dtsctl doctor", nothing},
		}},
	},
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
	t.Run("fleets", func(t *testing.T) {
		for name, scenes := range fleets {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				q := &questioned{t: t, redis: redistest.Start(t)}
				for _, s := range scenes {
					q.play(s, answers)
				}
			})
		}
	})
	for _, a := range answers {
		if !a.tried {
			t.Errorf("no situation is there for $ %s", a.command)
		}
	}
	if *update {
		testkit.Must(t, os.WriteFile(questionsPage, []byte(rewrite(text, answers)), 0o600))
	}
}

// play reaches a situation, and tries its commands.
func (q *questioned) play(s scene, answers []*answer) {
	began := time.Now()
	s.reach(q)
	q.t.Logf("%s: reached after %s", s.name, time.Since(began).Round(time.Millisecond))
	for _, c := range s.commands {
		q.try(answers, c)
	}
}

var nodeID = regexp.MustCompile(`\b(vm-[a-z2-7]{8}|NODE)\b`)

// try runs a command of the page, and compares what it prints. With -update, it takes that instead.
func (q *questioned) try(answers []*answer, c trial) {
	q.t.Helper()
	i := slices.IndexFunc(answers, func(a *answer) bool { return nodeID.ReplaceAllString(a.command, "NODE") == c.command })
	if i < 0 {
		q.t.Errorf("the page does not have $ %s", c.command)
		return
	}
	run := c.command
	if q.dying != nil {
		run = strings.ReplaceAll(run, "NODE", q.dying.id)
	}
	got := q.print(run)
	answers[i].tried = true
	if *update {
		answers[i].command, answers[i].output = q.onVM(run), got
		return
	}
	answers[i].compare(q.t, got, c.differs)
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
	of := q.front.id[:len(q.front.id)-len("-abcdefgh")] // the beginning of the ids of nodes of this host
	text = strings.ReplaceAll(text, of+"-", "vm-")
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
	last, found := "", false
	defer func() {
		if !found {
			q.t.Logf("dtsctl %s prints\n%s", command, last)
		}
	}()
	await(q.t, 30*time.Second, fmt.Sprintf("dtsctl %s prints %q", command, words), func() bool {
		last = q.print("dtsctl " + command)
		found = !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(last, word) })
		return found
	})
}

// start starts a node on a Redis with persistence and a limit of memory, as docs/operations.md advises.
func (q *questioned) start() *node {
	for setting, value := range map[string]string{"appendonly": "yes", "maxmemory": "1gb"} {
		testkit.Must(q.t, q.redis.Admin().ConfigSet(q.t.Context(), setting, value).Err())
	}
	return startProcess(q.t, "serve", "--redis", q.redis.URL(), "--concurrency", "4", "--lease-ttl", "1s",
		"--heartbeat", "300ms", "--queues", "default=3,mail=1", "--labels", "zone=eu")
}

// startNodes has two nodes. Tasks run on the first one, which will be killed, and one has ended there. It is forgotten
// as soon as another node leads its partition.
func (q *questioned) startNodes() {
	q.dying = q.start()
	q.front = q.dying
	q.do("task submit --type noop --id cleanup-1 --retention 1ms")
	q.do(`task submit --type noop --id import-1 --payload '{"sleep": "1h"}'`)
	q.do(`task submit --type noop --id import-2 --payload '{"sleep": "1h"}' -n shop`)
	q.until("task list -A --state running", "import-1", "import-2")
	q.front = q.start()
	await(q.t, 30*time.Second, "each node says that it leads eight partitions", func() bool {
		answer, err := q.front.ListNodesWithResponse(q.t.Context(), nil)
		testkit.Must(q.t, err)
		return answer.JSON200 != nil && len(answer.JSON200.Nodes) == 2 &&
			!slices.ContainsFunc(answer.JSON200.Nodes, func(n wire.Node) bool { return len(n.Partitions) != 8 })
	})
}

// haveTasksWait has a task for each thing that can hold it up, but for slots, and 500 tasks that fail with errors that
// differ by numbers only.
func (q *questioned) haveTasksWait() {
	q.do("queue pause mail --note 'the mail server moves'")
	q.do("task submit --type noop --queue mail --id mail-1")
	q.do("task submit --type noop --queue video --id video-1")
	q.do("task submit --type report --id report-1")
	q.do(`task submit --type noop --id order-1 --payload '{"fail": "no such host"}' --retry-delays 1h`)
	q.do("task submit --type noop --id reminder-1 --delay 10m --label order=4711")
	q.do("task submit --type noop --id order-2 --delay 10m", "task cancel order-2 --note 'the customer withdrew it'")
	q.do("queue capacity video 1")
	q.do("schedule put gaps --every 1s --misfire skip --misfire-window 1s --type noop", "schedule pause gaps")
	var tasks []wire.Submission
	for i := range 500 {
		tasks = append(tasks, wire.Submission{
			Type: "noop", Retry: &wire.Retry{MaxAttempts: ptr(1)},
			Payload: fmt.Appendf(nil, `{"fail": "order %d: payment %d refused by 10.0.0.%d"}`, i, i*7919, i%20),
		})
	}
	q.front.submit(tasks...)
	const begun, ended = 3 + 1 + 500, 1 + 1 + 500
	await(q.t, 30*time.Second, "both nodes have written all counts", func() bool {
		answer, err := q.front.ReadStatsWithResponse(q.t.Context(), &client.ReadStatsParams{})
		testkit.Must(q.t, err)
		if answer.JSON200 == nil || len(answer.JSON200.Queues) == 0 {
			return false
		}
		counts := answer.JSON200.Queues[0].Counts
		return counts.Begun == begun && counts.Ended == ended
	})
}

// killOne kills a node, whose tasks begin again on the other. Meanwhile schedules are changed and paused, miss ticks
// and fail.
func (q *questioned) killOne() {
	q.dying.kill()
	q.do("schedule put nightly --cron '30 2 * * *' --timezone Europe/Berlin --type noop")
	q.do("schedule put nightly --cron '0 4 * * *' --timezone Europe/Berlin --type noop --pause-on-failure 3")
	q.do("schedule pause nightly --note 'the disk is full'")
	q.do(`schedule put slow --every 1s --overlap queue --type noop --payload '{"sleep": "1h"}'`)
	q.do("schedule put held --every 1s --queue video --type noop")
	q.do(`schedule put feed -n shop --every 1s --max-attempts 1 --type noop --payload '{"fail": "no such host"}'`)
	q.do("schedule resume gaps")
	q.until("node get "+q.dying.id, "dead", "2 attempts")
	q.until("task list -A --state running", "import-1", "import-2", "slow@")
	q.until("schedule why slow", "overlap")
	q.until("schedule why held", "queue_full")
	q.until("schedule list --missed", "gaps")
	q.until("schedule list -A --stale=1s", "feed", "held", "slow")
	q.until("task logs cleanup-1", "deleted")
}

// hangSlots takes all slots with tasks that do not end. What would join the tasks that wait, or would be told in the
// status only after ten seconds, goes away before.
func (q *questioned) hangSlots() {
	q.do("schedule pause gaps", "schedule pause feed -n shop", "schedule delete held", "task cancel video-1 report-1")
	q.do("task cancel import-2 -n shop")
	q.do(`task submit --type noop --id hangs-1 --payload '{"sleep": "1h"}'`)
	q.until("task list --state running", "hangs-1") // the answer names it, as it began before the other one
	q.do(`task submit --type noop --id hangs-2 --payload '{"sleep": "1h"}'`)
	q.until("task list --state running", "hangs-1", "hangs-2")
	q.do("task submit --type noop --id next-1")
	q.until("task why next-1", "slots_taken")
	q.until("status", "failures_jumped", "node_died", "queue_paused", "4 of 4")
	await(q.t, 30*time.Second, "the status tells no more of what has gone away", func() bool {
		status := q.print("dtsctl status")
		return !strings.Contains(status, "schedule_failing") && !strings.Contains(status, "_unserved")
	})
}

// holdUp has a node with free slots, and tasks that a limit and a selector hold up.
func (q *questioned) holdUp() {
	q.front = q.start()
	await(q.t, 30*time.Second, "the node accepts limits", func() bool {
		return !strings.Contains(q.print("dtsctl limit set key:* --slots 1"), "dtsctl:")
	})
	q.do(`task submit --type noop --id import-3 --limit-key tenant-7 --payload '{"sleep": "1h"}'`)
	q.until("task list --state running", "import-3")
	q.do("task submit --type noop --id import-4 --limit-key tenant-7")
	q.do("task submit --type noop --id render-1 --select gpu")
	q.until("task why import-4", "limited")
	q.until("task why render-1", "no_node")
}

func (q *questioned) cordon() {
	q.do("node cordon "+q.front.id+" --note 'a new kernel'", "task submit --type noop --id import-5")
	q.until("task why import-5", "cordon")
}

func (q *questioned) loseRedis() {
	q.front = q.start()
	q.redis.Kill()
	q.until("doctor", "redis-reachable")
}
