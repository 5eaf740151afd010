package shellexec

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/worker/executor"
)

const (
	memoryLeast = config.Size(1 << 20) // less than most programs need to start
	memoryMost  = config.Size(1 << 50)
	cpuLeast    = time.Second
	cpuMost     = 365 * 24 * time.Hour
	filesLeast  = 16 // standard streams, and what a dynamic loader opens
	filesMost   = 1 << 20
)

// limits are what each process of a command may use; 0 is no limit. The system counts for each process, not for all of a command.
type limits struct {
	memory config.Size
	cpu    time.Duration // whole seconds, as the system counts them
	files  int           // open files
}

// exist reports whether there is a limit.
func (l limits) exist() bool { return l != limits{} }

// Declare adds the settings of the node, each of which is the largest value that a payload may name, and what holds if it names none.
func (l *limits) Declare(flags *pflag.FlagSet) {
	flags.Var(&l.memory, "shell-max-memory", "most memory of a process of a shell command, such as 2GiB (default: no limit)")
	flags.DurationVar(&l.cpu, "shell-max-cpu-time", l.cpu, "most CPU time of a process of a shell command (default: no limit)")
	flags.IntVar(&l.files, "shell-max-open-files", l.files, "most open files of a process of a shell command (default: no limit)")
}

// Validate checks the settings of the node.
func (l *limits) Validate() error {
	switch {
	case !l.exist():
		return nil
	case !canLimit:
		return fmt.Errorf("shell-max-memory, shell-max-cpu-time and shell-max-open-files need Linux")
	case l.memory != 0 && (l.memory < memoryLeast || l.memory > memoryMost):
		return fmt.Errorf("shell-max-memory: %s must be %s to %s", l.memory, memoryLeast, memoryMost)
	case l.files != 0 && (l.files < filesLeast || l.files > filesMost):
		return fmt.Errorf("shell-max-open-files: %d must be %d to %d", l.files, filesLeast, filesMost)
	case l.cpu%time.Second != 0:
		return fmt.Errorf("shell-max-cpu-time: %s is not a whole number of seconds", l.cpu)
	case l.cpu != 0:
		return config.CheckSpan("shell-max-cpu-time", l.cpu, cpuLeast, cpuMost)
	}
	return nil
}

// parseLimits reads the field of the payload. Error: *executor.InvalidPayloadError.
func parseLimits(value json.RawMessage) (limits, error) {
	var l limits
	if len(value) == 0 || string(value) == "null" {
		return l, nil
	}
	var memory, cpu *string
	var files *int
	err := executor.DecodeField("limits", value, map[string]executor.Field{
		"memory":     {Into: &memory, Want: "a string, such as \"512MiB\""},
		"cpu_time":   {Into: &cpu, Want: "a string, such as \"1m30s\""},
		"open_files": {Into: &files, Want: "a whole number"},
	})
	if err != nil {
		return l, err
	}
	if err := l.setMemory(memory); err != nil {
		return l, err
	}
	if err := l.setCPU(cpu); err != nil {
		return l, err
	}
	if files == nil {
		return l, nil
	}
	if l.files = *files; l.files < filesLeast || l.files > filesMost {
		return l, executor.Invalid("limits.open_files", "%d must be %d to %d", l.files, filesLeast, filesMost)
	}
	return l, nil
}

func (l *limits) setMemory(text *string) error {
	if text == nil {
		return nil
	}
	memory, err := config.ParseSize(*text)
	if err != nil {
		return executor.Invalid("limits.memory", "%s", err)
	}
	if memory < memoryLeast || memory > memoryMost {
		return executor.Invalid("limits.memory", "%s must be %s to %s", memory, memoryLeast, memoryMost)
	}
	l.memory = memory
	return nil
}

func (l *limits) setCPU(text *string) error {
	if text == nil {
		return nil
	}
	cpu, err := time.ParseDuration(*text)
	if err != nil || cpu%time.Second != 0 || cpu < cpuLeast || cpu > cpuMost {
		return executor.Invalid("limits.cpu_time", "%q must be whole seconds from %s to %s, such as \"1m30s\"", *text, cpuLeast, cpuMost)
	}
	l.cpu = cpu
	return nil
}

// within returns the limits that hold on a node with these largest values. Error: a permanent *executor.Verdict if one exceeds them.
func (l limits) within(most limits) (limits, error) {
	for _, tooMuch := range []struct {
		is             bool
		field, setting string
		wanted, most   any
	}{
		{most.memory != 0 && l.memory > most.memory, "memory", "shell-max-memory", l.memory, most.memory},
		{most.cpu != 0 && l.cpu > most.cpu, "cpu_time", "shell-max-cpu-time", l.cpu, most.cpu},
		{most.files != 0 && l.files > most.files, "open_files", "shell-max-open-files", l.files, most.files},
	} {
		if tooMuch.is {
			return l, executor.Permanent(fmt.Errorf("payload.limits.%s: %v is more than this node allows: --%s is %v",
				tooMuch.field, tooMuch.wanted, tooMuch.setting, tooMuch.most))
		}
	}
	if l.memory == 0 {
		l.memory = most.memory
	}
	if l.cpu == 0 {
		l.cpu = most.cpu
	}
	if l.files == 0 {
		l.files = most.files
	}
	if l.exist() && !canLimit {
		return l, executor.Permanent(fmt.Errorf("payload.limits: this node cannot limit commands: that needs Linux"))
	}
	return l, nil
}

var (
	saysMemory = regexp.MustCompile(`(?i)memory|\balloc|bad_alloc`)
	saysFiles  = regexp.MustCompile(`(?i)too many open files`)
)

// blame names the limit by which a process ended, as "; limits.memory is 64MiB", or "" if it seems to have ended by none. The system
// tells only of the CPU time; for the others, a process sees a call fail, and ends as it likes: most programs say why, or crash.
func (l limits) blame(state *os.ProcessState, complaint string) string {
	status, _ := state.Sys().(syscall.WaitStatus)
	spent := state.UserTime() + state.SystemTime()
	switch {
	case l.cpu != 0 && (signaled(status, syscall.SIGXCPU) || signaled(status, syscall.SIGKILL) && spent >= l.cpu):
		return fmt.Sprintf("; limits.cpu_time is %s", l.cpu)
	case l.files != 0 && saysFiles.MatchString(complaint):
		return fmt.Sprintf("; limits.open_files is %d", l.files)
	case l.memory != 0 && (saysMemory.MatchString(complaint) || crashed(status)):
		return fmt.Sprintf("; limits.memory is %s", l.memory)
	}
	return ""
}

// crashed reports whether a process ended as those do that do not expect to get no memory.
func crashed(status syscall.WaitStatus) bool {
	return signaled(status, syscall.SIGSEGV) || signaled(status, syscall.SIGABRT) || signaled(status, syscall.SIGBUS)
}

// signaled reports whether the signal ended the process, or one that it waited for, as shells tell by an exit status of 128 and more.
func signaled(status syscall.WaitStatus, s syscall.Signal) bool {
	return status.Signaled() && status.Signal() == s || status.Exited() && status.ExitStatus() == 128+int(s)
}
