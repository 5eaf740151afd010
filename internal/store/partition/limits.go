package partition

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// capsText writes what a claim may use of limits, as the script reads it.
func capsText(grants []limit.Grant) string {
	var b strings.Builder
	for _, g := range grants {
		fmt.Fprintf(&b, "%s %d %d %d\n", g.Limit, g.Version, g.Count, g.Tokens)
	}
	return b.String()
}

// capsOf returns what a claim replies of limits.
func capsOf(slots []lua.ClaimSlot) []limit.Cap {
	caps := make([]limit.Cap, len(slots))
	for i, s := range slots {
		caps[i] = limit.Cap(s)
	}
	return caps
}

// NewestCap is the field of the caps that has the newest version.
const NewestCap = "@"

var (
	isNumber = regexp.MustCompile(`^\d+(\.\d+)?$`)
	isCap    = regexp.MustCompile(`^\d+ \d+ \d+$`)
	isUse    = regexp.MustCompile(`^\d+ \d+ \d+ \d+ \d+( \d+ \d+ \d+ \d+)?$`)
)

// CheckCap says whether a field of the caps of a partition can be read.
func CheckCap(name, text string) error {
	if name == NewestCap && isNumber.MatchString(text) || name != NewestCap && isCap.MatchString(text) {
		return nil
	}
	return fmt.Errorf("%q is not <version> <cap> <tokens>", text)
}

// CheckUse says whether a field of what the home of a limit knows can be read.
func CheckUse(name, text string) error {
	if name == bucketField && isNumber.MatchString(text) || isNumber.MatchString(name) && isUse.MatchString(text) {
		return nil
	}
	return fmt.Errorf("%q is not <version> <count> <tokens> <waits since> <asked>", text)
}

// bucketField is the field of a use that says when the bucket is full again.
const bucketField = "@"

// CappedLimits returns the limits of which the partition has a cap, in any order. Error: one of Redis.
func (l *Leader) CappedLimits(ctx context.Context) ([]string, error) {
	fields, err := l.o.Layout.DB.HKeys(ctx, string(l.keys.Caps())).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the limits of partition %d: %w", l.number, err)
	}
	limits := fields[:0]
	for _, field := range fields {
		if field != NewestCap {
			limits = append(limits, field)
		}
	}
	return limits, nil
}

// Recount has the caps of limits in the partition be the numbers of tasks that hold a slot. Errors: ErrFenced, or an
// error of Redis.
func (l *Leader) Recount(ctx context.Context, recounts []limit.Recount) ([]limit.Cap, error) {
	call := lua.Recount{Lease: l.keys.Lease(), Fence: l.fence, Limits: make([]lua.RecountLimit, len(recounts))}
	for i, r := range recounts {
		call.Limits[i] = lua.RecountLimit(r)
	}
	reply, err := redisx.Run(ctx, l.o.Layout.DB, call)
	if err != nil {
		return nil, fenced(err)
	}
	caps := make([]limit.Cap, len(reply.Caps))
	for i, c := range reply.Caps {
		caps[i] = limit.Cap{Limit: c.Limit, Version: c.Version, Cap: c.Cap, Holders: c.Cap, Tokens: c.Tokens}
	}
	return caps, nil
}

// HomeOf returns the number of the partition in which slots of a limit are counted.
func (p *Partitions) HomeOf(name string) int { return p.o.Layout.HomeOf(name) }

// Settle tells the home of limits how many slots the partition uses, and asks for more. All of the limits have that
// home. Error: one of Redis.
func (l *Leader) Settle(ctx context.Context, home int, asks []limit.Ask) ([]limit.Answer, error) {
	keys := l.o.Layout.Keys
	call := lua.Settle{
		Caps: keys.Partition(home).Caps(), Number: l.number, Wakes: keys.AnyWake("*"),
		Limits: make([]lua.SettleLimit, len(asks)),
	}
	for i, a := range asks {
		call.Limits[i] = lua.SettleLimit{
			Limit: a.Limit, Version: a.Version, Have: a.Have, Want: a.Want, Least: a.Least,
			Tokens: a.Tokens, Start: a.LeastTokens,
			Slots: a.Rule.Slots, Rate: a.Rule.Rate, Per: a.Rule.Per, Burst: a.Rule.Tokens(),
		}
	}
	reply, err := redisx.Run(ctx, l.o.Layout.DB, call)
	if err != nil {
		return nil, fmt.Errorf("asking for slots of limits: %w", err)
	}
	answers := make([]limit.Answer, len(reply.Answers))
	for i, a := range reply.Answers {
		answers[i] = limit.Answer{Newer: a.Newer, Count: a.Count, Tokens: a.Tokens, Wanted: a.Wanted}
		if !a.Next.IsZero() {
			answers[i].Next = max(a.Next.Sub(reply.Now), 0)
		}
	}
	return answers, nil
}

// Words of messages to the leader of a partition.
const (
	freedWake  = "freed "  // and limits of which slots are free, as "key:a=2 all=3"
	settleWake = "settle " // and a limit
)

// freedIn reads the limits of a message, and how many slots of each became free.
func freedIn(text string) map[string]int {
	freed := make(map[string]int)
	for word := range strings.FieldsSeq(text) {
		i := strings.LastIndexByte(word, '=')
		if i < 0 {
			continue
		}
		if n, err := strconv.Atoi(word[i+1:]); err == nil {
			freed[word[:i]] = n
		}
	}
	return freed
}
