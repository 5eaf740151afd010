package tasks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
)

// missing is the error for a task that is not there, with CodeTaskNotFound. It says what became of one that was
// deleted, as long as that is remembered.
func (s *Tasks) missing(ctx context.Context, ref task.Ref) error {
	memory, err := s.l.DB.HGet(ctx, string(s.l.KeysOf(ref).Remembered()), ref.String()).Result()
	if err != nil { // the usual case: nothing is remembered
		return notFound(ref)
	}
	return &task.Error{
		Code: task.CodeTaskNotFound, Message: sentence(task.CodeTaskNotFound, ref, "") + rememberedAs(memory),
	}
}

// rememberedAs says what is remembered of a deleted task, "<digest> <state> <created ms> <ended ms>"; "" if that is
// nothing.
func rememberedAs(memory string) string {
	words := strings.Fields(memory)
	if len(words) != 4 || !task.State(words[1]).Final() {
		return ""
	}
	text := fmt.Sprintf(": it ended as %s", words[1])
	if ms, err := strconv.ParseInt(words[3], 10, 64); err == nil {
		text += " at " + codec.FromMS(ms).Format(time.RFC3339)
	}
	const why = "as its retention was over, Redis needed room (--retention-max-tasks, maxmemory), or somebody deleted it"
	return text + ", and was deleted since with its attempts and its log, " + why
}
