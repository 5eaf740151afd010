package web

import (
	"cmp"
	"context"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/calls"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/status"
)

// namedQueues is how many queues a sentence names.
const namedQueues = 3

// queueList is what the list of queues shows.
type queueList struct {
	Sentence template.HTML
	Rows     []queueRow // those with trouble first
	LeftOut  int        // how many more there are
	Foreign  []queueRow // those of asynq, which are only shown
	Searched bool       // the names contain what the reader asked for
}

// queueRow is a queue, and who serves it.
type queueRow struct {
	control.QueueInfo
	State    queueState
	Servers  []cluster.Node // living workers that take tasks from it
	Slots    int            // of these, and of asynq's own servers
	Reasons  []status.Reason
	SlotBars []segment // how many of the slots run tasks of the queue
}

// Due is how many due tasks wait.
func (q queueRow) Due() int { return q.Waiting + q.Pending }

// NeedsSomebody reports whether tasks wait that should not.
func (q queueRow) NeedsSomebody() bool { return q.State >= queueAsynqs && q.Due() > 0 }

// Held is how many deliveries asynq has that neither wait nor run: it tries them again, or keeps them.
func (q queueRow) Held() int { return max(q.Size-q.Pending-q.Active, 0) }

// queueState is how a queue is. The worse ones are greater.
type queueState int

const (
	queueIdle    queueState = iota // nobody serves it, and nothing waits
	queueServed                    // by living workers
	queueForeign                   // by asynq's own servers alone
	queueAsynqs                    // nobody serves it, and what it holds is of another asynq client
	queueLate                      // its tasks wait long, though nothing else is wrong
	queueFull                      // as many tasks wait as its capacity allows
	queuePaused
	queueTaken    // tasks hold its slots for long
	queueUnrun    // no worker of it runs a type that waits
	queueUnserved // nobody serves it, and tasks wait
)

// queueStateOf is how a queue is, as its numbers and the status tell.
func queueStateOf(q queueRow) queueState {
	has := func(code status.Code) bool {
		return slices.ContainsFunc(q.Reasons, func(r status.Reason) bool { return r.Code == code })
	}
	served := len(q.Servers) > 0
	switch {
	case q.IsAsynqs() && !served && q.Foreign == 0:
		return queueAsynqs
	case q.Due() > 0 && !served && q.Foreign == 0:
		return queueUnserved
	case has(status.TypeUnserved):
		return queueUnrun
	case has(status.SlotsTaken):
		return queueTaken
	case q.Paused:
		return queuePaused
	case q.Capacity > 0 && q.Due() >= q.Capacity:
		return queueFull
	case has(status.Late):
		return queueLate
	case served:
		return queueServed
	case q.Foreign > 0:
		return queueForeign
	}
	return queueIdle
}

// rowOf joins a queue with those who serve it, and with what the status says of it.
func rowOf(q control.QueueInfo, nodes []cluster.Node, reasons []status.Reason) queueRow {
	row := queueRow{QueueInfo: q, Slots: q.Foreign}
	for _, n := range nodes {
		if _, serves := n.Queues[q.Name]; serves && n.State == cluster.StateAlive && n.Has(config.RoleWorker) {
			row.Servers = append(row.Servers, n)
			row.Slots += n.Capacity
		}
	}
	for _, r := range reasons {
		if r.Kind == "queue" && r.ID == q.Name {
			row.Reasons = append(row.Reasons, r)
		}
	}
	row.State = queueStateOf(row)
	row.SlotBars = meterOf(row.Slots, amount{"f-run", q.Active})
	return row
}

// queueRows reads all queues, those with trouble first, and then those that have most to do.
func (v *visit) queueRows(ctx context.Context) ([]queueRow, error) {
	c := v.site.Control
	var queues []control.QueueInfo
	var nodes []cluster.Node
	err := calls.Try(
		func() (err error) { queues, err = c.ListQueues(ctx, v.who); return err },
		func() (err error) { nodes, err = c.ListNodes(ctx, v.who); return err },
	)
	if err != nil {
		return nil, err
	}
	rows := make([]queueRow, len(queues))
	for i, q := range queues {
		rows[i] = rowOf(q, nodes, v.Status.Reasons)
	}
	slices.SortStableFunc(rows, func(a, b queueRow) int {
		return cmp.Or(cmp.Compare(b.urgency(), a.urgency()), cmp.Compare(b.Due()+b.Active, a.Due()+a.Active))
	})
	return rows, nil
}

// urgency orders the rows: queues in which tasks wait that should not, queues that are paused, and all others.
func (q queueRow) urgency() queueState {
	switch {
	case q.NeedsSomebody():
		return 1 + q.State
	case q.State == queuePaused:
		return 1
	}
	return 0
}

func readQueues(ctx context.Context, v *visit) (any, string, error) {
	rows, err := v.queueRows(ctx)
	if err != nil {
		return nil, "", err
	}
	l := queueList{Sentence: v.queuesSentence(rows)}
	if name := strings.TrimSpace(v.query.Get("name")); name != "" {
		l.Searched = true
		rows = slices.DeleteFunc(rows, func(q queueRow) bool { return !strings.Contains(q.Name, name) })
	}
	for _, q := range rows {
		if q.State == queueAsynqs || q.State == queueForeign && q.Waiting == 0 && q.Capacity == 0 {
			l.Foreign = append(l.Foreign, q)
			continue
		}
		l.Rows = append(l.Rows, q)
	}
	all := len(l.Rows) + len(l.Foreign)
	l.Rows = l.Rows[:min(len(l.Rows), pageRows)]
	l.Foreign = l.Foreign[:min(len(l.Foreign), pageRows-len(l.Rows))]
	l.LeftOut = all - len(l.Rows) - len(l.Foreign)
	return l, string(v.T("Queues")), nil
}

// queuesSentence says whether tasks wait that should not.
func (v *visit) queuesSentence(rows []queueRow) template.HTML {
	if len(rows) == 0 {
		return v.T("There is no queue yet: the first task makes one.")
	}
	due, oldest, needs := 0, time.Duration(0), 0
	var clauses []string
	for _, q := range rows {
		due, oldest = due+q.Due(), max(oldest, q.Oldest)
		if !q.NeedsSomebody() {
			continue
		}
		if needs++; needs <= namedQueues {
			clauses = append(clauses, string(v.queueClause(q)))
		}
	}
	first := v.T("No task waits that should not.")
	if needs > 0 {
		if more := needs - namedQueues; more > 0 {
			clauses = append(clauses, string(v.T("and %d more", more)))
		}
		list := template.HTML(v.List(clauses)) //nolint:gosec // made by T
		first = v.T("%d queues of %d need somebody: %s.", needs, len(rows), list)
	}
	return sentences([]template.HTML{first, v.dueSentence(due, oldest)})
}

// dueSentence says how many tasks wait.
func (v *visit) dueSentence(due int, oldest time.Duration) template.HTML {
	switch {
	case due == 0:
		return v.T("Nothing waits.")
	case oldest == 0:
		return v.T("%d due tasks wait.", due)
	}
	return v.T("%d due tasks wait, the first of them for %s.", due, v.Took(oldest))
}

// queueClause says in a few words what is wrong with a queue.
func (v *visit) queueClause(q queueRow) template.HTML {
	name := code(q.Name)
	switch q.State {
	case queueAsynqs:
		return v.T("%s has no server of asynq", name)
	case queueUnserved:
		return v.T("%s has no worker", name)
	case queueUnrun:
		return v.T("%s has no worker for a type", name)
	case queueTaken:
		return v.T("%s has no free slot for long", name)
	case queuePaused:
		return v.T("%s is paused", name)
	case queueFull:
		return v.T("%s is at its capacity", name)
	}
	return v.T("%s is late", name)
}

// QueueMark is the icon and the colour of a queue.
func (v *visit) QueueMark(q queueRow) mark {
	switch q.State {
	case queueUnserved, queueUnrun, queueTaken:
		return mark{"warn", "t-bad"}
	case queuePaused:
		return mark{"pause", "t-warn"}
	case queueFull, queueLate:
		return mark{"warn", "t-warn"}
	case queueAsynqs:
		if q.Due() == 0 {
			return mark{"sched", "t-off"}
		}
		return mark{"warn", "t-warn"}
	case queueServed, queueForeign:
		return mark{"alive", "t-ok"}
	}
	return mark{"sched", "t-off"}
}

// QueueWord is the state of a queue in a word or two.
func (v *visit) QueueWord(q queueRow) template.HTML {
	switch q.State {
	case queueUnserved:
		return v.T("no worker")
	case queueUnrun:
		return v.T("type not run")
	case queueTaken:
		return v.T("slots taken")
	case queuePaused:
		return v.T("paused")
	case queueFull:
		return v.T("at its capacity")
	case queueLate:
		return v.T("late")
	case queueServed:
		return v.T("served")
	case queueForeign:
		return v.T("served by asynq")
	case queueAsynqs:
		return v.T("no server of asynq")
	}
	return v.T("nobody serves it, and it is empty")
}
