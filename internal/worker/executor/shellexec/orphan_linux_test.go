package shellexec

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const orphanTest = "DTS_TEST_RUN_UNTIL_KILLED"

// The test starts itself once more, as a node that runs a command, and kills that node.
func TestExecutor_LeavesNoMainProcessWhenTheNodeIsKilled(t *testing.T) {
	if os.Getenv(orphanTest) != "" {
		r := sh(t, "echo $$; while :; do sleep 0.05; done")
		r.Log = func(_, line string) { _, _ = os.Stdout.WriteString("pid " + line + "\n") }
		_, _ = run(t, r)
		return
	}
	node := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	node.Env = append(os.Environ(), orphanTest+"=1")
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = node.Wait()
	if pid == 0 {
		t.Fatal("the node did not start its command")
	}
	wantGone(t, pid)
}
