package httpexec

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/worker/executor"
)

// The headers of a checkpoint. Servers take about 8 KiB of headers in all, so a checkpoint that is longer than checkpointHeaderLimit
// is not sent with a call, but how long it is.
const (
	checkpointHeader      = "Dts-Checkpoint"
	checkpointBytesHeader = "Dts-Checkpoint-Bytes"
	checkpointHeaderLimit = 4 << 10
)

// sendCheckpoint adds the checkpoint of earlier attempts to the header of a call.
func sendCheckpoint(header http.Header, checkpoint json.RawMessage) {
	if checkpoint == nil {
		return
	}
	header.Set(checkpointBytesHeader, strconv.Itoa(len(checkpoint)))
	if text := asciiJSON(checkpoint); len(text) <= checkpointHeaderLimit {
		header.Set(checkpointHeader, text)
	}
}

// asciiJSON returns compact JSON with every character that headers cannot have as an escape. Such characters are in strings only.
func asciiJSON(compact json.RawMessage) string {
	var b strings.Builder
	for _, r := range string(compact) {
		switch {
		case r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// keepCheckpoint saves the checkpoint that an answer has, for the attempt that follows. The log says why if that fails.
func keepCheckpoint(ctx context.Context, answer http.Header, a executor.Attempt) {
	checkpoint := answer.Get(checkpointHeader)
	if checkpoint == "" {
		return
	}
	if err := a.Save(ctx, json.RawMessage(checkpoint)); err != nil {
		a.Log("stderr", task.Cut("the answer's "+checkpointHeader+" was not saved: "+err.Error(), task.LogLineLimit))
	}
}
