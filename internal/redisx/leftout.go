package redisx

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// leftOutLimit is how many texts LeftOut keeps; it counts the others.
const leftOutLimit = 20

// LeftOut collects what readers of a list leave out because it cannot be read in Redis. It is safe for concurrent use.
type LeftOut struct {
	mu    sync.Mutex
	texts []string
	about map[string]string // what texts are about that LeaveOutAbout has noted
	more  int
}

type leftOutKey struct{}

// LeavingOut returns a context under which readers leave out what cannot be read in Redis, and what collects that.
// Under any other context they fail, as whoever decides by what they read must have all of it. Readers of histories,
// ledgers and attempts leave single entries out under any context, and say so: their callers see the holes, or do not
// decide by them.
func LeavingOut(ctx context.Context) (context.Context, *LeftOut) {
	l := &LeftOut{}
	return context.WithValue(ctx, leftOutKey{}, l), l
}

// LeavesOut reports whether ctx is one of LeavingOut.
func LeavesOut(ctx context.Context) bool {
	_, ok := ctx.Value(leftOutKey{}).(*LeftOut)
	return ok
}

// LeaveOut notes a sentence, without a full stop, about what is left out. It returns false if ctx is not one of
// LeavingOut.
func LeaveOut(ctx context.Context, format string, args ...any) bool {
	return LeaveOutAbout(ctx, "", format, args...)
}

// LeaveOutAbout is LeaveOut for what matters to some readers only: see TextsBut.
func LeaveOutAbout(ctx context.Context, about, format string, args ...any) bool {
	l, ok := ctx.Value(leftOutKey{}).(*LeftOut)
	if !ok {
		return false
	}
	l.note(fmt.Sprintf(format, args...)+": dtsctl doctor tells more", about)
	return true
}

// PassOn notes what another reading has left out, as its Texts say. It does nothing if ctx is not one of LeavingOut.
func PassOn(ctx context.Context, texts []string) {
	if l, ok := ctx.Value(leftOutKey{}).(*LeftOut); ok {
		for _, text := range texts {
			l.note(text, "")
		}
	}
}

func (l *LeftOut) note(text, about string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case slices.Contains(l.texts, text):
	case len(l.texts) == leftOutLimit:
		l.more++
	default:
		l.texts = append(l.texts, text)
		if about != "" {
			if l.about == nil {
				l.about = make(map[string]string)
			}
			l.about[text] = about
		}
	}
}

// TextsBut is Texts without those that LeaveOutAbout has noted about something.
func (l *LeftOut) TextsBut(about string) []string {
	texts := slices.Clone(l.Texts())
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(texts, func(text string) bool { return l.about[text] == about })
}

// Texts returns what was left out, at most 20 sentences and one that counts the others; nil for nothing.
func (l *LeftOut) Texts() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more > 0 {
		return append(slices.Clip(l.texts), fmt.Sprintf("%d further things are left out", l.more))
	}
	return l.texts
}

// LeaveOutKey notes, if err says so, that a key has the wrong type. It returns false for any other error, and if ctx is
// not one of LeavingOut.
func LeaveOutKey(ctx context.Context, key string, err error) bool {
	const text = "%s has the wrong type, so that what it should hold is left out"
	return IsDamage(err) && LeaveOut(ctx, text, describe(key))
}

// ofPartition is a key of a partition, with its number.
var ofPartition = regexp.MustCompile(`^[^{]*\{(\d+)\}:[^{]`)

// describe names a key for people.
func describe(key string) string {
	if m := ofPartition.FindStringSubmatch(key); m != nil && !strings.HasPrefix(key, "asynq:") {
		return fmt.Sprintf("the key %s of partition %s", key, m[1])
	}
	return "the key " + key
}

// together is a pipeline of ReadTogether.
type together struct {
	redis.Pipeliner
	db *DB
}

// ReadTogether returns a pipeline for commands that only read, all in one moment. A Redis that is full begins no
// transaction: then it executes them one after the other.
func (db *DB) ReadTogether() redis.Pipeliner { return together{db.TxPipeline(), db} }

// Exec executes the commands.
func (t together) Exec(ctx context.Context) ([]redis.Cmder, error) {
	cmds, err := t.Pipeliner.Exec(ctx)
	if !redis.IsExecAbortError(err) {
		return cmds, err
	}
	pipe := t.db.Pipeline()
	for _, cmd := range cmds {
		cmd.SetErr(nil)
		_ = pipe.Process(ctx, cmd)
	}
	return pipe.Exec(ctx)
}

// ExecReads executes a pipeline of commands that read one key each. Under LeavingOut, a key of the wrong type is read
// as one that does not exist, and so is, under PassingOver, a key of a server that is passed over. Error: that of the
// first other command that failed.
func ExecReads(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	for _, cmd := range cmds {
		e := cmd.Err()
		if e != nil && !errors.Is(e, redis.Nil) && !IsPassedOver(e) && !leaveOutKeyOf(ctx, cmd) {
			return e
		}
	}
	if IsDamage(err) || errors.Is(err, redis.Nil) || IsPassedOver(err) {
		return nil
	}
	return err
}

// leaveOutKeyOf is LeaveOutKey for a command that failed.
func leaveOutKeyOf(ctx context.Context, cmd redis.Cmder) bool {
	args := cmd.Args()
	return len(args) > 1 && LeaveOutKey(ctx, fmt.Sprint(args[1]), cmd.Err())
}
