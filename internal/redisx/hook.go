package redisx

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/clock"
)

// hook is what a Link does with the commands of a client.
type hook struct {
	link    *Link
	address string // of the client's server; "" if Redis is no cluster
	whole   bool   // it is the client of a cluster, which passes commands on to clients of its servers
	dials   *dials // of the client; nil: it makes none, or nobody counts

	// kept reports whether commands that began at since had to wait for a primary to settle; nil: they never do.
	kept func(since time.Time) bool
}

// repeats is what a Link knows of commands of the client of a cluster, which it may send more than once.
type repeats struct {
	start time.Time // of the first time

	mu     sync.Mutex
	broken map[string]broken // by server: the last times, if they broke off with their connections
}

// broken is a command that broke off with its connection, perhaps several times in a row.
type broken struct {
	times int
	start time.Time // of the last time
	err   error
}

type repeatsKey struct{}

func repeatsOf(ctx context.Context) *repeats {
	r, _ := ctx.Value(repeatsKey{}).(*repeats)
	return r
}

// set notes what became of the last time at a server; err is nil if it did not break off. It does nothing for nil: nobody counts.
func (r *repeats) set(address string, start time.Time, err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.broken, address)
		return
	}
	r.broken[address] = broken{r.broken[address].times + 1, start, err}
}

// DialHook implements redis.Hook.
func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	dial := h.dials.hook(next)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			h.link.servers.addRemote(conn)
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.do(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := h.do(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
		if err != nil && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
			for _, cmd := range cmds { // the link is severed, or Redis turned the connection away, of which go-redis tells the commands nothing
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// do sends commands, with the limit of the link.
func (h hook) do(ctx context.Context, cmds []redis.Cmder, send func(context.Context) error) error {
	if reason := h.link.Severed(); reason != nil {
		return reason
	}
	if h.whole {
		return h.doAll(ctx, send)
	}
	if h.link.passesOver(ctx, h.address) {
		return errPassedOver
	}
	start, limit, repeats := clock.Now(), h.link.limit(h.address), repeatsOf(ctx)
	if repeats != nil {
		limit -= start.Sub(repeats.start)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := h.repeat(ctx, start, send)
	if err != nil {
		h.link.noteDenied(cmds, err)
	}
	switch {
	case h.dials.repeated(start, err), !h.tells(cmds, err), h.waited(start, err):
	case h.address != "" && isBroken(err):
		repeats.set(h.address, start, err)
	default:
		repeats.set(h.address, start, nil)
		if h.address != "" && isAnswer(err) && !isTurnedAway(err) && slices.ContainsFunc(cmds, concernsData) {
			h.link.heard.Store(h.address, clock.Now())
		}
		if h.isTelling(cmds, err) {
			h.link.record(h.address, start, err)
		}
	}
	return err
}

// waited reports whether commands timed out that had to wait for a primary to settle: that tells nothing of Redis.
func (h hook) waited(start time.Time, err error) bool {
	return isTimeout(err) && h.kept != nil && h.kept(start)
}

// isTelling reports whether what became of commands, if they were answered, says whether Redis works. It also answers those that need no data
// while it reads its data from the disk, or as a replica. A right that is missing tells something if it is that to run scripts, which every
// node runs all the time: others, as that to CONFIG, may be missing. Then only a script shows that it has come back.
func (h hook) isTelling(cmds []redis.Cmder, err error) bool {
	answered := err == nil || isAnswer(err) && !isTurnedAway(err)
	switch {
	case answered && err != nil && slices.ContainsFunc(answersWithoutData, func(begin string) bool { return redis.HasErrorPrefix(err, begin) }):
		return false
	case err != nil && redis.HasErrorPrefix(err, noRight), answered && h.link.lacksRights(h.address):
		return slices.ContainsFunc(cmds, isScript)
	case answered:
		return slices.ContainsFunc(cmds, needsData)
	}
	return true
}

// answersWithoutData are how answers begin that Redis gives before it looks whether it may use its data: it does not know a
// script, is a replica that takes no writes, or has turned away a command of a transaction.
var answersWithoutData = []string{"NOSCRIPT", "READONLY", "EXECABORT"}

// needsData reports whether Redis answers a command only when it has its data. PING is such a command, too.
func needsData(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "ping":
		return true
	case "publish", "config", "role", "time":
		return false
	}
	return concernsData(cmd)
}

func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// repeat sends commands, and again what did not fail by their server: go-redis repeats what it is given for a whole Redis, but not what is sent to one
// server of a cluster; and it does not connect again for up to a second, in which another client may reach the server already.
func (h hook) repeat(ctx context.Context, start time.Time, send func(context.Context) error) error {
	err := send(ctx)
	if repeatsOf(ctx) == nil && h.address != "" && isBroken(err) {
		err = send(ctx)
	}
	for h.dials.repeated(start, err) && h.link.reaches(h.address) && clock.Sleep(ctx, redialPause) == nil {
		err = send(ctx)
	}
	return err
}

// doAll sends commands of the client of a cluster. A connection that breaks while its server lives is nothing to tell of: the client sends
// again what was on it. It does not if the caller gives up meanwhile, or for some transactions, so that one broken connection alone is no sign.
func (h hook) doAll(ctx context.Context, send func(context.Context) error) error {
	r := &repeats{start: clock.Now(), broken: make(map[string]broken)}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, repeatsKey{}, r), answerLimit)
	defer cancel()
	err := send(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for address, b := range r.broken {
		if b.times > 1 {
			h.link.record(address, b.start, b.err)
		}
	}
	return err
}

// tells reports whether what became of commands says whether the server answers this process. A server of a cluster that is only asked for the map
// may be away: clients ask another one.
func (h hook) tells(cmds []redis.Cmder, err error) bool {
	return !h.whole && (h.address == "" || isAnswer(err) || slices.ContainsFunc(cmds, concernsData))
}
