package change_test

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/change"
	"github.com/dts-sched/dts/internal/task"
)

var (
	at      = time.UnixMilli(1767366245120).UTC()
	nightly = task.Ref{Namespace: "default", ID: "nightly"}
)

func TestDecode_ReadsWhatScriptsAndNodesPublish(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]change.Change{
		`{"type":"schedule.paused","at":"1767366245120","ref":"default:nightly","revision":"3","by":"ann","note":"x"}`: {
			Type: change.SchedulePaused, At: at, Ref: nightly, Revision: 3, By: "ann", Note: "x",
		},
		`{"type":"schedule.paused","at":"1767366245120","ref":"default:nightly","revision":"damaged"}`: {
			Type: change.SchedulePaused, At: at, Ref: nightly,
		},
		`{"type":"queue.limited","at":"1767366245120","queue":"low","limit":"7"}`: {
			Type: change.QueueLimited, At: at, Queue: "low", Capacity: 7,
		},
		`{"type":"schedule.moved","at":"1767366245120","ref":"default:nightly","to":"b"}`: {
			Type: "schedule.moved", At: at, Ref: nightly,
		},
		`{"type":"workflow.updated","at":"1767366245120","ref":"default:nightly","revision":"2","by":"ann"}`: {
			Type: "workflow.updated", At: at, Ref: nightly, Revision: 2, By: "ann",
		},
		`{"type":"limit.set","at":"1767366245120","limit_name":"key:*","by":"ann"}`: {
			Type: "limit.set", At: at, Limit: "key:*", By: "ann",
		},
		`{"type":"fleet.begun","at":"1767366245120","run":"b"}`: {Type: "fleet.begun", At: at},
	} {
		if got, err := change.Decode(message); err != nil || got != want {
			t.Errorf("%s is read as %+v, %v", message, got, err)
		}
	}
	for _, message := range []string{
		"", "join n1", "[]", "{}", `{"type":"queue.paused","at":"soon","queue":"low"}`,
		`{"type":"queue.paused","at":"1","queue":""}`, `{"type":"schedule.paused","at":"1","ref":"nightly"}`,
		`{"type":"workflow.paused","at":"1","ref":"nightly"}`,
		`{"type":"queue.paused","at":1,"queue":"low"}`, `{"type":"limit.set","at":"1"}`,
	} {
		if got, err := change.Decode(message); err == nil {
			t.Errorf("%q is read as %+v", message, got)
		}
	}
}

func TestEncode_WritesWhatDecodeReads(t *testing.T) {
	t.Parallel()
	for _, c := range []change.Change{
		{Type: change.SchedulePaused, At: at, Ref: nightly, Revision: 3, By: "ann", Note: "a \"b\"\n<c>"},
		{Type: "queue.paused", At: at, Queue: "low"}, {Type: "limit.deleted", At: at, Limit: "all", By: "ann"},
	} {
		if got, err := change.Decode(change.Encode(c)); err != nil || got != c {
			t.Errorf("%+v is read as %+v, %v", c, got, err)
		}
	}
}

func TestDecodeMember_ReadsWhatAllReleasesPublish(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]change.Change{
		"join n1 1767366245120":     {Type: change.NodeJoined, Node: "n1", At: at},
		"leave n1 1767366245120":    {Type: change.NodeLeft, Node: "n1", At: at},
		"lost n1 1767366245120":     {Type: change.NodeLost, Node: "n1", At: at},
		"draining n1 1767366245120": {Type: change.NodeChanged, State: "draining", Node: "n1", At: at},
		"join n1":                   {Type: change.NodeJoined, Node: "n1"}, // of an earlier release
		"join n1 1767366245120 new": {Type: change.NodeJoined, Node: "n1"}, // of a later one, perhaps
	} {
		got, err := change.DecodeMember(message)
		if err != nil || got != want || got.Kind() != change.Node || change.MemberOf(message) != "n1" {
			t.Errorf("%q is read as %+v, %v", message, got, err)
		}
	}
	for _, message := range []string{"", "join", "join ", " n1"} {
		if got, err := change.DecodeMember(message); err == nil {
			t.Errorf("%q is read as %+v", message, got)
		}
	}
}
