package queue

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

var sincePattern = regexp.MustCompile(`\b1\d{18}`) // a time in ns

// content is what Redis has, without the times at which that came.
func (x *transport) content() map[string]string {
	content := make(map[string]string)
	for key, entry := range redistest.Dump(x.t, x.db) {
		e, ok := entry.(redistest.Entry)
		if scores, isSet := e.Value.(map[string]float64); isSet {
			var members []string
			for member := range scores {
				members = append(members, member)
			}
			slices.Sort(members)
			e.Value = members
		}
		if content[key] = sincePattern.ReplaceAllString(fmt.Sprintf("%s %q", e.Type, e.Value), "then"); !ok {
			x.t.Fatalf("%s is %v", key, entry)
		}
	}
	return content
}

// The script asks for all deliveries of a call at once whether they exist, and keeps which of them it has enqueued.
func TestEnqueue_KeepsNeighboursApart(t *testing.T) {
	t.Parallel()
	claimedLater := func(id string) task.Delivery {
		d := aDelivery(id)
		d.ClaimedAt = d.ClaimedAt.Add(time.Minute)
		return d
	}
	for name, c := range map[string]struct {
		prepare    func(x *transport)
		deliveries []task.Delivery
	}{
		"all are new": {
			func(*transport) {},
			[]task.Delivery{aDelivery("a"), aDelivery("b"), aDelivery("a"), aDelivery("c"), aDelivery("b"), claimedLater("c")},
		},
		"some exist": {
			func(x *transport) {
				x.enqueue(aDelivery("abandoned"))
				x.take(aDelivery("abandoned"), 0)
				x.enqueue(aDelivery("taken"))
				x.take(aDelivery("taken"), asynqLease)
				leave(x, aDelivery("archived"), "archived")
				leave(x, aDelivery("handled"), "archived")
				x.enqueue(aDelivery("waits"))
				x.enqueue(aDelivery("older"))
			},
			[]task.Delivery{
				aDelivery("a"), aDelivery("waits"), aDelivery("b"), claimedLater("older"), aDelivery("a"), aDelivery("taken"),
				claimedLater("archived"), aDelivery("handled"), aDelivery("abandoned"), aDelivery("c"), claimedLater("archived"),
				aDelivery("b"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ended [2][]string
			var contents [2]map[string]string
			for i, size := range []int{1, len(c.deliveries)} {
				x := newTransport(t)
				c.prepare(x)
				for part := range slices.Chunk(c.deliveries, size) {
					handed := x.HandOver(t.Context(), part, nil)
					testkit.Must(t, handed.Failure())
					for place, d := range part {
						if _, has := handed.Ended[place]; has {
							ended[i] = append(ended[i], d.String())
						}
					}
				}
				contents[i] = x.content()
			}
			if list := contents[1]["asynq:{default}:pending"]; !strings.Contains(list, "default:a:1") {
				t.Fatalf("there wait %s", list)
			}
			if diff := cmp.Diff(ended[0], ended[1]); diff != "" {
				t.Errorf("these have ended (-one by one +together):\n%s", diff)
			}
			if diff := cmp.Diff(contents[0], contents[1]); diff != "" {
				t.Errorf("what Redis has (-one by one +together):\n%s", diff)
			}
		})
	}
}
