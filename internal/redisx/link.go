package redisx

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	answerLimit = 5 * time.Second // for the answer to a command, with all repetitions and the wait for a connection
	// outageLimit is the same while a server does not answer: commands for it fail fast, so that callers do not pile up, and the first one that
	// gets an answer ends the outage. There is no question of its own that would have to come first. It is longer than a Succession has
	// connections wait, so that what comes right before the end of an outage is answered.
	outageLimit = 2 * time.Second
	// silence without an answer begins an outage. It is shorter than the limits of those that ask regularly.
	silence = 900 * time.Millisecond
	// unasked is after what time without an answer or a failure nobody asks a server of a cluster any more, as after a failover: its outage is over,
	// and it does not count as one that answers. It is longer than answerLimit, so that a server which is asked all the time never seems unasked.
	unasked = 10 * time.Second
	// deniedFor is how long Outage tells of a script that Redis refused for a missing right. Whoever needs the right tries
	// again sooner.
	deniedFor = 10 * time.Second
)

// Link is the way of a process to one Redis, for all pools that share it. It bounds how long a command waits for its answer, but not how
// long a subscription lives; it knows which servers answer, and logs "Redis unreachable" once when the outage of a server begins and "Redis
// back" once when it ends. Those of a cluster have outages of their own, so that commands for the others keep their time; any other Redis is one
// server, "". Who waits for the first answer logs that by itself. A server that answers, but turns the node away, is away as well: see isTurnedAway.
type Link struct {
	log     *slog.Logger
	met     atomic.Bool  // there was an answer
	away    atomic.Int32 // servers in an outage
	turning atomic.Int32 // servers that turn this node away, as isTurnedAway says, and are in no outage for it yet
	severed atomic.Pointer[error]
	denied  atomic.Pointer[denial]
	heard   sync.Map // address of a server of a cluster -> when it last answered a command about data

	servers    servers
	discovered atomic.Bool // by Open

	mu      sync.Mutex
	outages map[string]*outage // of servers that have failed, by address
}

// outage is the newest outage of a server.
type outage struct {
	since   time.Time // start of the first command that failed; zero when it is over
	noticed time.Time // end of that command
	failed  time.Time // end of the last command that failed, or was turned away
	back    time.Time // end of the outage
	turned  time.Time // start of the first command that was turned away, since the last one that was not
	kind    string    // that of the refusal that was logged last
	said    string    // that refusal
	rights  bool      // the last refusal was for a missing right
}

// denial is a script that Redis refused for a missing right. Others still work, so it is no outage.
type denial struct {
	at   time.Time
	said string
}

func (o *outage) lasts() bool { return o != nil && !o.since.IsZero() }

// NewLink returns a link that logs outages; nil logs nothing.
func NewLink(log *slog.Logger) *Link {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Link{log: log, outages: make(map[string]*outage)}
}

// Up reports whether Redis answers, as far as is known: of a cluster, every server that this process asks. Before the first answer, it does not.
func (l *Link) Up() bool { return l.met.Load() && l.away.Load() == 0 }

// Answers is Up for a Redis that is one server. For a cluster, it reports whether any of the servers with data answers, as far as is known: one that
// has done so lately, and is not away. A server that was replaced without dying, or removed, is not asked any more, and so never seems away.
func (l *Link) Answers() bool {
	if l.Up() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	answers := false
	l.heard.Range(func(address, at any) bool {
		answers = clock.Since(at.(time.Time)) < unasked && !l.outages[address.(string)].lasts()
		return !answers
	})
	return answers
}

// Errors of Link.Outage. Redis answers, so waiting may not help: somebody must do something about what it says.
var (
	ErrTurnedAway = errors.New("it turns this node away")
	ErrDenied     = errors.New("it refuses this node a right that it needs")
)

// Outage returns an error that says why Answers does not hold, or that Redis has just refused a script for a missing right
// (ErrDenied); else nil.
func (l *Link) Outage() error {
	if l.Answers() {
		if d := l.denied.Load(); d != nil && clock.Since(d.at) < deniedFor {
			return fmt.Errorf("%w: %s", ErrDenied, d.said)
		}
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.outages {
		if o.lasts() && o.said != "" {
			return fmt.Errorf("%w: %s", ErrTurnedAway, o.said)
		}
	}
	return errors.New("it does not answer this node")
}

// AwaySince returns when the outage of a server began that has lasted longest, by the clock of this process; the zero time
// if there is none.
func (l *Link) AwaySince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	var since time.Time
	for _, o := range l.outages {
		if o.lasts() && (since.IsZero() || o.since.Before(since)) {
			since = o.since
		}
	}
	return since
}

// reaches reports whether a server is not in an outage, as far as is known.
func (l *Link) reaches(address string) bool {
	if l.away.Load() == 0 {
		return l.met.Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.outages[address].lasts()
}

// Sever has every command fail from now on, at once and with that error.
func (l *Link) Sever(reason error) { l.severed.CompareAndSwap(nil, &reason) }

// Severed returns the reason with which Sever was called, else nil.
func (l *Link) Severed() error {
	if reason := l.severed.Load(); reason != nil {
		return *reason
	}
	return nil
}

// limit returns how long a command for a server may wait, with all repetitions.
func (l *Link) limit(address string) time.Duration {
	if l.met.Load() && !l.reaches(address) {
		return outageLimit
	}
	return answerLimit
}

// record evaluates a command for a server that began at start and returned err.
//
// Commands run concurrently. Therefore an answer ends an outage only if its command began after the outage was
// noticed, and a failure begins an outage only if its command began after the last outage.
func (l *Link) record(address string, start time.Time, err error) {
	turned := isTurnedAway(err)
	answered := isAnswer(err) && !turned
	if answered && !l.met.Load() {
		l.met.Store(true)
	}
	if answered && l.away.Load() == 0 && l.turning.Load() == 0 || !answered && !l.met.Load() ||
		!answered && !turned && !isConnectionFailure(start, err) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case answered:
		l.noteAnswer(address, start)
	case turned:
		l.noteRefusal(address, start, err)
	default:
		l.noteFailure(address, start, err)
	}
}

// noteAnswer notes the answer of a server while there is an outage, or one may begin. The caller holds mu.
func (l *Link) noteAnswer(address string, start time.Time) {
	if o := l.outages[address]; o != nil && !o.turned.IsZero() {
		o.turned, o.rights = time.Time{}, false
		l.turning.Add(-1)
	}
	if o := l.outages[address]; o.lasts() && !start.Before(o.noticed) {
		l.end(address, "Redis back")
	}
	if l.outages[address].lasts() {
		return
	}
	for other, o := range l.outages {
		switch {
		case clock.Since(o.failed) < unasked:
		case o.lasts():
			l.end(other, "Redis server not asked any more")
			l.heard.Delete(other)
			l.forget(other)
		case !o.turned.IsZero(): // it has refused something, and was asked nothing since
			l.forget(other)
		}
	}
}

// forget forgets what is known of a server. The caller holds mu.
func (l *Link) forget(address string) {
	if !l.outages[address].turned.IsZero() {
		l.turning.Add(-1)
	}
	delete(l.outages, address)
}

// noteRefusal notes that a server turned a command away. Refusals alone, for as long as silence, begin an outage. After a
// change of the password, connections that stood before still work. The caller holds mu.
func (l *Link) noteRefusal(address string, start time.Time, err error) {
	o := l.outageOf(address)
	if o.turned.IsZero() {
		o.turned = start
		l.turning.Add(1)
	}
	o.failed = clock.Now()
	o.rights = redis.HasErrorPrefix(err, noRight)
	lasts, kind := o.lasts(), kindOf(err)
	switch {
	case !lasts && clock.Since(o.turned) >= silence:
		o.kind, o.said = kind, err.Error()
		l.noteFailure(address, start, err)
	case lasts && o.kind != kind:
		o.kind, o.said = kind, err.Error()
		l.log.Error("Redis answers, but turns this node away", attributes(address, slog.Any("error", err))...)
	}
}

// lacksRights reports whether a server has just refused this node something for a missing right.
func (l *Link) lacksRights(address string) bool {
	if l.away.Load() == 0 && l.turning.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.outages[address]
	return o != nil && o.rights
}

// noteDenied notes those of some commands that are scripts, and failed for a missing right: every node needs all that
// scripts do. err is how sending them failed: go-redis does not tell a single command its error before.
func (l *Link) noteDenied(cmds []redis.Cmder, err error) {
	for _, cmd := range cmds {
		failure := cmd.Err()
		if len(cmds) == 1 {
			failure = err
		}
		if failure != nil && isScript(cmd) && isDenied(failure) {
			l.denied.Store(&denial{clock.Now(), deniedText(failure)})
		}
	}
}

// outageOf is the newest outage of a server. The caller holds mu.
func (l *Link) outageOf(address string) *outage {
	o := l.outages[address]
	if o == nil {
		o = &outage{}
		l.outages[address] = o
	}
	return o
}

// noteFailure notes that a server did not answer, or turns all away. The caller holds mu.
func (l *Link) noteFailure(address string, start time.Time, err error) {
	o := l.outageOf(address)
	o.failed = clock.Now()
	if o.lasts() || start.Before(o.back) {
		return
	}
	l.log.Error("Redis unreachable", attributes(address, slog.Any("error", err))...)
	o.since, o.noticed = start, o.failed
	l.away.Add(1)
}

// end ends the outage of a server. The caller holds mu.
func (l *Link) end(address, message string) {
	o := l.outages[address]
	o.back = clock.Now()
	l.log.Info(message, attributes(address, slog.Duration("after", o.back.Sub(o.since).Round(time.Millisecond)))...)
	o.since, o.said = time.Time{}, ""
	l.denied.Store(nil) // a right may have come back; if one is still missing, the next script tells
	l.away.Add(-1)
}

// attributes are those of a record about a server.
func attributes(address string, other slog.Attr) []any {
	if address == "" {
		return []any{other}
	}
	return []any{slog.String("server", address), other}
}

// Unanswered reports whether err is that of a server that did not answer.
func Unanswered(err error) bool {
	var netErr net.Error // also the end of a deadline
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isAnswer reports whether err shows that Redis answered: no error, or an error reply.
func isAnswer(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}

// isTurnedAway reports whether err shows that Redis answers and does nothing for this node: it reads its data from the disk after a start, does not
// take the password, has too many clients, is busy with a script, is a replica, or is a cluster that lacks a part.
func isTurnedAway(err error) bool {
	if err == nil { // as of nearly every command
		return false
	}
	for _, prefix := range turningAway {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// kindOf is what tells one refusal of Redis from another: its text, but that there are several for a missing password.
func kindOf(err error) string {
	if redis.HasErrorPrefix(err, noPassword) || redis.HasErrorPrefix(err, unauthenticated) {
		return noPassword
	}
	return err.Error()
}

// isBroken reports whether err is that of a connection which stood and broke.
func isBroken(err error) bool {
	var op *net.OpError
	return Unanswered(err) && (!errors.As(err, &op) || op.Op != "dial") && !isTimeout(err)
}

// isConnectionFailure reports whether err is a refused or broken connection, or a silence since start that was not too short to mean
// anything.
func isConnectionFailure(start time.Time, err error) bool {
	if isTimeout(err) {
		return clock.Since(start) >= silence
	}
	return Unanswered(err)
}

// isTimeout reports whether err says that there was no answer in time.
func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
