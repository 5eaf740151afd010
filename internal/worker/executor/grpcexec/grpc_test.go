package grpcexec

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

func TestDescribe_AnAttemptMayTakeThirtySeconds(t *testing.T) {
	t.Parallel()
	if got := Describe(nil).Timeout; got != 30*time.Second {
		t.Errorf("the default timeout is %s", got)
	}
}

func TestExecutor_CallsAMethodThatTheServerDescribes(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	e := newExecutor(t)
	for range 3 {
		if got, err := execute(t, e, object{"target": s.target, "method": check}); err != nil || got != `{"status":"SERVING"}` {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	got, err := execute(t, e, object{"target": s.target, "method": unary, "request": object{"responseSize": 3, "responseStatus": object{"message": "ü"}}})
	if want := `{"payload":{"body":"AAAA"},"username":"ü"}`; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if s.accepted.Load() != 1 || s.asked.Load() != 2 {
		t.Errorf("%d connections, and %d reflections of two services; want 1 and 2", s.accepted.Load(), s.asked.Load())
	}
}

func TestExecutor_ReflectsWithTheOlderVersionToo(t *testing.T) {
	t.Parallel()
	s := serveWith(t, func(s *grpc.Server) { reflection.Register(alphaOnly{s}) })
	if got, err := execute(t, newExecutor(t), object{"target": s.target, "method": check}); err != nil || got != `{"status":"SERVING"}` {
		t.Errorf("got %q, %v", got, err)
	}
}

// alphaOnly leaves the newer version of reflection out.
type alphaOnly struct{ *grpc.Server }

func (a alphaOnly) RegisterService(d *grpc.ServiceDesc, impl any) {
	if d.ServiceName != "grpc.reflection.v1.ServerReflection" {
		a.Server.RegisterService(d, impl)
	}
}

func TestExecutor_CallsAMethodOfADescriptorSet(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	folder := t.TempDir()
	raw, err := base64.StdEncoding.DecodeString(testingSet(t))
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "testing.binpb"), raw, 0o600))
	e := described(t, "--grpc-descriptors="+folder)
	request := object{"responseStatus": object{"message": "hello"}}
	for name, payload := range map[string]object{
		"of the payload":      {"descriptor_set": testingSet(t)},
		"of a file":           {"descriptor_file": "testing.binpb"},
		"of the file, cached": {"descriptor_file": "testing.binpb"},
	} {
		payload["target"], payload["method"], payload["request"] = s.target, unary, request
		if got, err := execute(t, e, payload); err != nil || got != `{"payload":{},"username":"hello"}` {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if s.asked.Load() != 0 {
		t.Errorf("the server was asked for its descriptors %d times", s.asked.Load())
	}
}

func TestExecutor_FailsForGoodWithoutDescriptors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "long"), make([]byte, descriptorsLimit+1), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "text"), []byte("syntax"), 0o600))
	outside := filepath.Join(t.TempDir(), "outside")
	testkit.Must(t, os.WriteFile(outside, nil, 0o600))
	reflecting, silent := serve(t, true), serve(t, false)
	with, without := described(t, "--grpc-descriptors="+folder), newExecutor(t)
	testkit.Must(t, os.Mkdir(filepath.Join(folder, "sub"), 0o700))
	removed := t.TempDir()
	gone := described(t, "--grpc-descriptors="+removed)
	testkit.Must(t, os.Remove(removed))
	for name, c := range map[string]struct {
		e       *Executor
		payload object
		want    string
	}{
		"no reflection":       {without, object{"target": silent.target, "method": check}, "the server does not describe its services (reflection): give descriptor_set or descriptor_file"},
		"no such service":     {without, object{"target": reflecting.target, "method": "a.B/C"}, "payload.method: the server has no service a.B"},
		"no such method":      {without, object{"target": reflecting.target, "method": "grpc.health.v1.Health/Chekc"}, "grpc.health.v1.Health has no method Chekc, only Check, List, Watch"},
		"a message":           {without, object{"target": reflecting.target, "method": "grpc.health.v1.HealthCheckRequest/Check"}, "there is no service grpc.health.v1.HealthCheckRequest"},
		"a stream":            {without, object{"target": reflecting.target, "method": "grpc.health.v1.Health/Watch"}, "payload.method: grpc.health.v1.Health/Watch is a stream: only unary methods can be called"},
		"an unknown field":    {without, object{"target": reflecting.target, "method": check, "request": object{"sevrice": "a"}}, `payload.request: is not a grpc.health.v1.HealthCheckRequest: (line 1:2): unknown field "sevrice"`},
		"no folder":           {without, object{"target": silent.target, "method": check, "descriptor_file": "a"}, "payload.descriptor_file: this node has no folder of descriptor sets: --grpc-descriptors is not set"},
		"no such file":        {with, object{"target": silent.target, "method": check, "descriptor_file": "a"}, "payload.descriptor_file: this node has no a"},
		"no folder any more":  {gone, object{"target": silent.target, "method": check, "descriptor_file": "a"}, "payload.descriptor_file: grpc-descriptors: open " + removed},
		"a folder":            {with, object{"target": silent.target, "method": check, "descriptor_file": "sub"}, "payload.descriptor_file: read " + folder + "/sub: is a directory"},
		"too long a file":     {with, object{"target": silent.target, "method": check, "descriptor_file": "long"}, "payload.descriptor_file: long is longer than 4194304 bytes"},
		"a file of something": {with, object{"target": silent.target, "method": check, "descriptor_file": "text"}, "payload.descriptor_file: is not a serialized FileDescriptorSet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := execute(t, c.e, c.payload)
			if err == nil || !strings.Contains(err.Error(), c.want) || !executor.IsPermanent(err) {
				t.Errorf("error is %v, want finally %q", err, c.want)
			}
		})
	}
	testkit.Must(t, os.Symlink(outside, filepath.Join(folder, "link")))
	if _, err := execute(t, with, object{"target": silent.target, "method": check, "descriptor_file": "link"}); err == nil || !strings.Contains(err.Error(), "escapes") {
		t.Errorf("a link out of the folder: %v", err)
	}
}

func TestExecutor_TellsTheServerWhichAttemptItIs(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	e := described(t)
	r := executortest.NewRecorder(executortest.JSON(t, object{
		"target": s.target, "method": unary, "metadata": object{"Authorization": "Bearer abc", "trace-bin": base64.StdEncoding.EncodeToString([]byte{0, 255})},
	}))
	r.ID = "nightly@20260102T150405Z"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := e.Execute(ctx, r.Attempt)
	testkit.Must(t, err)
	md := testkit.Receive(t, s.seen, "a call")
	for key, want := range map[string]string{
		"dts-task-id": "nightly@20260102T150405Z", "dts-attempt": "3", "dts-namespace": "acme", "dts-tick": "2026-01-02T15:04:05.000Z",
		"idempotency-key": "acme:nightly@20260102T150405Z", "authorization": "Bearer abc", "trace-bin": "\x00\xff",
	} {
		if got := md.Get(key); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got := md.Get("user-agent"); len(got) != 1 || !strings.HasPrefix(got[0], "dts/1.2.3 ") {
		t.Errorf("user-agent is %q", got)
	}
	if left := testkit.Receive(t, s.deadline, "a deadline"); left > 10*time.Second || left < 5*time.Second {
		t.Errorf("the server has %s, want those of the attempt", left)
	}
	_, err = execute(t, e, object{"target": s.target, "method": unary, "metadata": object{"idempotency-key": "mine"}})
	testkit.Must(t, err)
	if md := testkit.Receive(t, s.seen, "a call"); !slices.Equal(md.Get(idempotencyKey), []string{"mine"}) || md.Get("dts-tick") != nil {
		t.Errorf("metadata is %v", md)
	}
}

func TestExecutor_CallsOverTLS(t *testing.T) {
	t.Parallel()
	own := newPair(t)
	ca := own.CertPEM()
	s := serve(t, false, own.serverOption())
	e := newExecutor(t)
	call := func(tls any) (string, error) {
		payload := object{"target": s.target, "method": check, "descriptor_set": executortest.DescriptorSet(t, grpc_health_v1.File_grpc_health_v1_health_proto)}
		if tls != nil {
			payload["tls"] = tls
		}
		return execute(t, e, payload)
	}
	if got, err := call(object{"ca": ca, "server_name": "orders.test"}); err != nil || got != `{"status":"SERVING"}` {
		t.Errorf("got %q, %v", got, err)
	}
	for name, c := range map[string]struct {
		tls  any
		want string
	}{
		"another name": {object{"ca": ca, "server_name": "other.test"}, "certificate is valid for orders.test, localhost, not other.test"},
		"its address":  {object{"ca": ca}, "cannot validate certificate for 127.0.0.1"},
		"no ca":        {object{"server_name": "orders.test"}, "certificate signed by unknown authority"},
		"no TLS":       {nil, "UNAVAILABLE"},
	} {
		if _, err := call(c.tls); err == nil || !strings.Contains(err.Error(), c.want) || executor.IsPermanent(err) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestExecutor_BoundsWhatItReads(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	e := newExecutor(t)
	got, err := execute(t, e, object{"target": s.target, "method": unary, "request": object{"responseSize": 100_000}})
	if err != nil || len(got) > task.ResultLimit || !strings.HasSuffix(got, task.CutMark) {
		t.Errorf("a long answer: %d bytes, %v", len(got), err)
	}
	_, err = execute(t, e, object{"target": s.target, "method": unary, "request": object{"responseSize": messageLimit}})
	if err == nil || !strings.HasPrefix(err.Error(), "RESOURCE_EXHAUSTED: ") || len(err.Error()) > task.ErrorLimit {
		t.Errorf("too long an answer: %v", err)
	}
	_, err = execute(t, e, object{"target": s.target, "method": unary, "request": object{"responseStatus": object{"code": 13, "message": strings.Repeat("ü", 5000)}}})
	want := task.CutError("INTERNAL: "+strings.Repeat("ü", 5000), task.ErrorLimit)
	if err == nil || err.Error() != want {
		t.Errorf("a long message: %v", err)
	}
}

func TestExecutor_StopsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.hold = make(chan struct{})
	e := newExecutor(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cancelled by somebody")
	ended := make(chan error, 1)
	go func() {
		_, err := e.Execute(ctx, executortest.NewRecorder(executortest.JSON(t, object{"target": s.target, "method": unary})).Attempt)
		ended <- err
	}()
	testkit.Receive(t, s.started, "a call")
	cancel(cause)
	if err := testkit.Receive(t, ended, "the end"); !errors.Is(err, cause) || err.Error() != unary+": cancelled by somebody" {
		t.Errorf("error is %v", err)
	}
	timeout := errors.New("took too long")
	ctx, stop := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, timeout)
	defer stop()
	_, err := e.Execute(ctx, executortest.NewRecorder(executortest.JSON(t, object{"target": s.target, "method": unary})).Attempt)
	if !errors.Is(err, timeout) {
		t.Errorf("error is %v", err)
	}
	close(s.hold)
	if _, err := execute(t, e, object{"target": s.target, "method": unary}); err != nil {
		t.Errorf("another call: %v", err)
	}
	if s.accepted.Load() != 2 {
		t.Errorf("%d connections, want a new one after a timeout, and only then", s.accepted.Load())
	}
}

func TestExecutor_TimesOutWhenTheServerSaysSo(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	e := newExecutor(t)
	cause := errors.New("took too long")
	request := object{"responseStatus": object{"code": 4, "message": "why"}}
	payload := executortest.JSON(t, object{"target": s.target, "method": unary, "request": request})
	_, err := e.Execute(executortest.Late(t, 40*time.Millisecond, cause), executortest.NewRecorder(payload).Attempt)
	if !errors.Is(err, cause) {
		t.Errorf("at the deadline: %v", err)
	}
	_, err = e.Execute(executortest.Late(t, time.Minute, cause), executortest.NewRecorder(payload).Attempt)
	if err == nil || err.Error() != "DEADLINE_EXCEEDED: why" {
		t.Errorf("long before the deadline: %v", err)
	}
}

func TestExecutor_CallsNoAddressThatIsDenied(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	port := s.target[strings.LastIndex(s.target, ":"):]
	for _, c := range []struct {
		settings []string
		target   string
		want     string
	}{
		{nil, s.target, ""},
		{[]string{"--http-deny=127.0.0.0/8,::1"}, s.target, "this task may not call the address 127.0.0.1: it is one of http-deny"},
		{[]string{"--http-deny=127.0.0.0/8,::1"}, "localhost" + port, "it is one of http-deny"},
		{[]string{"--http-deny=0.0.0.0/0,::/0", "--http-allow=127.0.0.1"}, s.target, ""},
		{nil, "169.254.169.254:80", "this task may not call the address 169.254.169.254: it gives away the credentials"},
	} {
		e := described(t, c.settings...)
		for range 2 { // the second one finds what the first one left
			_, err := execute(t, e, object{"target": c.target, "method": check})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !executor.IsPermanent(err)) {
				t.Errorf("%v: %s: %v, want %q", c.settings, c.target, err, c.want)
			}
		}
	}
}
