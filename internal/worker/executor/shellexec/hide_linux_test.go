package shellexec

import (
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

// The test starts itself once more, as a node without privileges that has a secret in its environment.
func TestDescribe_KeepsTheEnvironmentFromCommands(t *testing.T) {
	const rerun, secret = "DTS_TEST_HIDES", "redis://:hunter2@h"
	if os.Getenv(rerun) != "" {
		hideFromCommands(t)
		return
	}
	self, err := os.Open(os.Args[0]) // in a folder that only this user may enter
	testkit.Must(t, err)
	defer func() { _ = self.Close() }()
	node := exec.Command("/proc/self/fd/3", "-test.run=^"+t.Name()+"$", "-test.v")
	node.Dir, node.ExtraFiles = "/", []*os.File{self}
	node.Env = []string{"PATH=" + os.Getenv("PATH"), rerun + "=1", "DTS_REDIS=" + secret}
	if os.Geteuid() == 0 {
		const nobody = 65534
		node.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := node.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) || strings.Contains(string(out), "hunter2") {
		t.Errorf("in the node: %v\n%s", err, out)
	}
}

func hideFromCommands(t *testing.T) {
	e := described(t)
	for _, command := range []string{
		"cat /proc/$PPID/environ", "cat /proc/$PPID/maps", "ls -l /proc/$PPID/fd", "head -c 1 /proc/$PPID/mem",
		"readlink /proc/$PPID/exe",
	} {
		if out, err := e.Execute(t.Context(), sh(t, command).Attempt); err == nil {
			t.Errorf("%s: %s", command, out)
		}
	}
	if _, err := os.ReadDir("/proc/self/fd"); err != nil { // as /metrics does
		t.Error(err)
	}
	for _, file := range []string{"stat", "limits", "maps", "status"} { // as /metrics and profiles do
		if _, err := os.ReadFile("/proc/self/" + file); err != nil {
			t.Error(err)
		}
	}
	testkit.Must(t, pprof.Lookup("heap").WriteTo(io.Discard, 0))
}
