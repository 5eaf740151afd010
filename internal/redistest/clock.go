package redistest

import (
	_ "embed" // the source of the library
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
)

//go:embed testdata/clock.c
var clockSource []byte

// MovableClock starts the server with a clock that MoveClock moves. The test is skipped where a library cannot be put in front of the
// system's, as it can on Linux. It needs the C compiler that the race detector needs.
func MovableClock(t testing.TB) Option {
	t.Helper()
	testkit.NotQuick(t)
	if runtime.GOOS != "linux" {
		t.Skip("the clock of redis-server can only be moved on Linux")
	}
	dir := t.TempDir()
	source, library, file := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so"), filepath.Join(dir, "ahead")
	for name, content := range map[string][]byte{source: clockSource, file: make([]byte, 8)} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "cc", "-O", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("compiling the clock of redis-server: %v\n%s", err, out)
	}
	return func(s *Server) {
		s.clock = file
		s.environ = append(s.environ, "LD_PRELOAD="+library, "DTS_TEST_CLOCK="+file)
	}
}

// MoveClock has the clock of the server, started with MovableClock, show that much more, or less, than the machine's from now on.
func (s *Server) MoveClock(ahead time.Duration) {
	s.t.Helper()
	file, err := os.OpenFile(s.clock, os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead.Milliseconds())), 0); err != nil {
		s.t.Fatal(err)
	}
}
