package test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/test/process"
)

// asynqWorker is a process that has asynq in it and nothing of DTS. It keeps its own record, outside Redis, of what it handled.
type asynqWorker struct {
	mu      sync.Mutex
	handled map[string]int // by payload
}

func startAsynqWorker(t *testing.T, redis *redistest.Server, queue string) *asynqWorker {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "asynqworker"), "--redis", redis.Addr(), "--queue", queue)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &asynqWorker{handled: make(map[string]int)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if payload, ok := strings.CutPrefix(lines.Text(), "handled "); ok {
				w.note(payload)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return w
}

func (w *asynqWorker) note(payload string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handled[payload]++
}

// record is how often each payload was handled.
func (w *asynqWorker) record() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	record := make(map[string]int, len(w.handled))
	for payload, n := range w.handled {
		record[payload] = n
	}
	return record
}

// The workers of a fleet that uses asynq do what DTS schedules, each task once, though the node that leads and follows most of them dies.
func TestAsynqWorkers_HandleEachTaskOnceThroughACrashOfTheLeader(t *testing.T) {
	t.Parallel()
	count, spread := testkit.Amount(400, 1000), testkit.Amount(4*time.Second, 8*time.Second)
	redis := redistest.Start(t)
	worker := startAsynqWorker(t, redis, "mails")
	var nodes []*node
	for range 3 {
		nodes = append(nodes, startNode(t, redis.URL(), "--enable-asynq"))
	}
	await(t, 30*time.Second, "every node leads", func() bool {
		for _, n := range nodes {
			if len(nodes[0].partitions(n.id)) < 5 {
				return false
			}
		}
		return true
	})

	var tasks []wire.Submission
	payloads := make(map[string]string)
	for i := range count {
		id, payload := fmt.Sprintf("t%04d", i), fmt.Sprintf(`{"to":%d}`, i)
		payloads[id] = payload
		tasks = append(tasks, wire.Submission{
			ID: &id, Type: "asynq", Delay: ptr((time.Duration(i) * spread / time.Duration(count)).String()),
			Payload: fmt.Appendf(nil, `{"type":"email:send","queue":"mails","payload":%s}`, payload),
		})
	}
	nodes[1].submit(tasks...)
	await(t, time.Minute, "a third is handled", func() bool { return len(worker.record()) > count/3 })
	nodes[0].kill()
	await(t, 2*time.Minute, "all have ended", nodes[1].idle)
	// The lines of the worker come through a pipe, and what it did last may be known from Redis before.
	await(t, 10*time.Second, "the worker's record has all", func() bool { return len(worker.record()) == count })

	record := worker.record()
	for id, payload := range payloads {
		if n := record[payload]; n != 1 {
			t.Errorf("%s was handled %d times", id, n)
		}
	}
	again := 0
	for _, one := range nodes[1].all("succeeded") {
		if want := fmt.Sprintf("sent %s", payloads[one.ID]); one.Result == nil || *one.Result != want {
			t.Errorf("%s has the result %v, want %q", one.ID, one.Result, want)
		}
		if one.Attempt > 1 {
			again++
		}
	}
	t.Logf("%d tasks were followed by a second worker", again)
	if done := len(nodes[1].all("succeeded")); done != count {
		t.Errorf("%d have succeeded, and %d have failed", done, len(nodes[1].all("failed")))
	}
	inspector := asynq.NewInspectorFromRedisClient(redis.DB(t).UniversalClient)
	await(t, 10*time.Second, "asynq keeps nothing but what the dead node had no time to delete", func() bool {
		info, err := inspector.GetQueueInfo("mails")
		return err == nil && info.Completed <= 20 && info.Size <= 20
	})
}

// fromAsynq runs examples/from-asynq, and returns how it describes the change of each config.
func fromAsynq(t *testing.T, flags ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "from-asynq"), flags...)
	cmd.Env = append(os.Environ(), "GORACE="+process.QuickRace)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var changes []string
	for line := range strings.Lines(string(out)) {
		changes = append(changes, strings.Split(line, "\t")[1])
	}
	return changes
}

// The program that docs/from-asynq.md describes imports configs once, and what it imports is done by asynq's workers.
func TestFromAsynq_ImportsConfigsThatAsynqWorkersThenHandle(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/from-asynq.md")
	testkit.Must(t, err)
	settings := regexp.MustCompile(`(?m)^dtsd serve --redis \S+ (.*)$`).FindStringSubmatch(string(page))
	redis := redistest.Start(t)
	n := startNode(t, redis.URL(), strings.Fields(settings[1])...)
	flags := []string{"--server", n.url, "--queue", "asynq"}
	same(t, "a dry run says", []string{"created", "created"}, fromAsynq(t, append(flags, "--dry-run")...))
	e := &examples{node: n}
	same(t, "a dry run leaves", 0, len(e.schedules()))
	same(t, "at first", []string{"created", "created"}, fromAsynq(t, flags...))
	same(t, "again", []string{"unchanged", "unchanged"}, fromAsynq(t, flags...))
	same(t, "with another time zone", []string{"unchanged", "unchanged"}, fromAsynq(t, append(flags, "--timezone", "Asia/Tokyo")...))

	server := asynq.NewServer(asynq.RedisClientOpt{Addr: redis.Addr()}, asynq.Config{
		Queues: map[string]int{"mails": 1}, LogLevel: asynq.FatalLevel, TaskCheckInterval: 50 * time.Millisecond,
	})
	done := make(chan string, 10)
	if err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		done <- t.Type() + " " + string(t.Payload())
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	for _, s := range e.schedules() {
		if !strings.HasPrefix(s.ID, "email-digest-") {
			continue
		}
		if _, err := n.TriggerScheduleWithResponse(t.Context(), s.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "asynq handles", `email:digest {"audience":"customers"}`, testkit.Receive(t, done, "the task"))
	await(t, 30*time.Second, "DTS has its end", func() bool {
		all := n.all("succeeded")
		return len(all) > 0 && all[0].Type == "asynq"
	})
}
