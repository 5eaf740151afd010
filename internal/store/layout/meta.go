package layout

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/store/migration"
)

// meta is what nodes settle in dts:meta, as it is stored; "" for what is missing.
type meta struct {
	Partitions string `redis:"partitions"`
	Layout     string `redis:"layout"`
	Secret     string `redis:"secret"`
	Retries    string `redis:"retries"`
	Data       string `redis:"data"`
}

// metaFields are the names of the fields.
var metaFields = []string{"partitions", "layout", "secret", "retries", "data"}

// values are the values of the fields, in the order of metaFields.
func (m meta) values() []string { return []string{m.Partitions, m.Layout, m.Secret, m.Retries, m.Data} }

// missing returns the names of the missing fields without which no node can work.
func (m meta) missing() (names []string) {
	for i, value := range m.values()[:3] {
		if value == "" {
			names = append(names, metaFields[i])
		}
	}
	return names
}

// readMeta reads dts:meta. Error: one of Redis.
func (l *Layout) readMeta(ctx context.Context) (found meta, _ error) {
	if err := l.DB.HMGet(ctx, string(l.Keys.Meta()), metaFields...).Scan(&found); err != nil {
		return meta{}, fmt.Errorf("reading %s: %w", l.Keys.Meta(), err)
	}
	return found, nil
}

// settleMeta writes those fields of own that dts:meta lacks, and returns what it has now: of several nodes, the first
// one settles a field. Error: one of Redis.
func (l *Layout) settleMeta(ctx context.Context, own meta) (found meta, _ error) {
	pipe := l.DB.Pipeline()
	for i, value := range own.values() {
		if value != "" {
			pipe.HSetNX(ctx, string(l.Keys.Meta()), metaFields[i], value)
		}
	}
	all := pipe.HMGet(ctx, string(l.Keys.Meta()), metaFields...)
	_, err := pipe.Exec(ctx)
	if err == nil {
		err = all.Scan(&found)
	}
	if err != nil {
		return meta{}, fmt.Errorf("writing %s: %w", l.Keys.Meta(), err)
	}
	return found, nil
}

// What the log says of a key that is gone while the data is there.
const (
	WhyGone     = "somebody has deleted it, Redis has evicted it, or a restore was incomplete"
	WhatIsRight = "look with dtsctl doctor whether other keys are missing"
)

// openMeta reads dts:meta, and writes it at the first start. It only reads if nothing is missing, which a Redis that
// refuses writes allows. If it is gone and the data is there, openMeta leaves it to a living node. Without one, it
// writes the number of partitions that the data has: with another one, nothing would be found. It writes the field data
// as the partitions are marked: with another one, clients would say that the data is lost. expected is the number of
// partitions; 0 accepts any. Errors: as traces.count, or one of Redis.
func (l *Layout) openMeta(ctx context.Context, expected int) (meta, error) {
	found, err := l.readMeta(ctx)
	if err != nil || len(found.missing()) == 0 {
		return found, err
	}
	own := meta{Partitions: found.Partitions, Layout: l.Present(), Secret: rand.Text()}
	if found.Partitions != "" {
		return l.settleMeta(ctx, own)
	}
	traces, err := l.findTraces(ctx)
	if err != nil {
		return meta{}, err
	}
	count, err := traces.count(expected)
	if count > 0 || err != nil { // unless it is of a node that has started meanwhile, as the first one
		if now, unread := l.readMeta(ctx); unread != nil || len(now.missing()) == 0 {
			return now, unread
		}
	}
	if err != nil {
		return meta{}, err
	}
	if count > 0 {
		l.Log.ErrorContext(ctx, string(l.Keys.Meta())+" is gone, and the data is there: "+WhatIsRight,
			"causes", WhyGone, "partitions", count)
		if found, err = l.awaitMeta(ctx); err != nil || len(found.missing()) == 0 {
			return found, err
		}
	}
	own.Partitions = strconv.Itoa(cmp.Or(count, expected, DefaultPartitions))
	own.Retries = "0" // no task was created by an earlier release, or nobody knows until when
	own.Data = l.markedOrNew(ctx, count)
	return l.settleMeta(ctx, own)
}

// markedOrNew is the field data for a dts:meta that lacks it: the mark of one of the first partitions, so that nobody
// takes the data for other data; a new one if none is marked; "" if one that does not answer may be.
func (l *Layout) markedOrNew(ctx context.Context, partitions int) string {
	marks, err := l.marks(ctx, below(partitions))
	if mark := cmp.Or(marks...); mark != "" || err != nil {
		return mark
	}
	return rand.Text()
}

// ownMeta is what this node knows of dts:meta. data is the field of that name.
func (l *Layout) ownMeta(data string) meta {
	own := meta{Partitions: strconv.Itoa(l.partitions), Layout: l.Present(), Secret: l.secret.Load().(string), Data: data}
	if since := l.retries.Load(); since != unsettled {
		own.Retries = strconv.FormatInt(since, 10)
	}
	return own
}

// MissingMeta returns the fields that dts:meta lacks and without which no node can work. Error: one of Redis.
func (l *Layout) MissingMeta(ctx context.Context) ([]string, error) {
	found, err := l.readMeta(ctx)
	if err != nil {
		return nil, err
	}
	return found.missing(), nil
}

// RestoreMeta writes these fields, as they were. The next Check of a node writes the others, and tells whether Redis
// has lost more. Error: one of Redis.
func (l *Layout) RestoreMeta(ctx context.Context) error {
	_, err := l.settleMeta(ctx, l.ownMeta(""))
	return err
}

// unsettled stands for a time that is not known yet.
const unsettled = -1

// settleLater settles what data of an earlier release lacks: since when the present defaults of retries hold, which
// is from now on, and the field data. While Redis takes no writes, neither can be stored: each node uses its own time
// then, and tries again at the next Check. So it does with the field while a partition that may be marked does not
// answer. Error: CodeUnavailable.
func (l *Layout) settleLater(ctx context.Context, found meta) error {
	if found.Retries != "" && found.Data != "" {
		return nil
	}
	if l.retries.Load() == unsettled {
		now, err := l.Now(ctx, 0)
		if err != nil {
			return err
		}
		l.retries.Store(now.UnixMilli())
	}
	data := l.data.Load().(string)
	if data == "" {
		data = l.markedOrNew(ctx, l.partitions)
	}
	settled, err := l.settleMeta(ctx, meta{Retries: l.ownMeta("").Retries, Data: data})
	switch {
	case redisx.IsFull(err), redisx.RefusedWrites(err) != "": // tried again at the next Check
		return nil
	case err != nil:
		return Unavailable(err)
	}
	if since, err := strconv.ParseInt(settled.Retries, 10, 64); err == nil {
		l.retries.Store(since)
	}
	l.data.Store(settled.Data)
	return nil
}

// RetriesSince is since when the present defaults of retries hold in this installation: tasks that were created
// before keep the earlier ones (ADR 31).
func (l *Layout) RetriesSince() time.Time { return time.UnixMilli(l.retries.Load()) }

// ErrOther is the error of Check if Redis holds the data of another installation than the one that was opened.
var ErrOther = errors.New("redis holds other data now")

// errGone is the error of calls that need dts:meta while it is gone: Check comes first.
var errGone = errors.New("the key dts:meta is gone")

// Finding is what Check found.
type Finding struct {
	Lost    bool     // Redis has lost the data: what this process remembers of it is wrong
	Missing []string // the fields of dts:meta that were missing, and that Check has written unless it failed
}

// Check compares dts:meta with what Open found, and writes again what is missing. Then all data is lost if no partition
// has a mark, and forgotten says that Redis does not know this process either. Check calls it only then. If another
// node has written dts:meta first, Check takes over its secret; if one has moved the data to another layout, that one.
// Errors: ErrOther if the number of partitions differs, or this node does not serve the layout, so that nothing would
// be found where it is; that of forgotten; or one of Redis. With an error, the finding says what is missing.
func (l *Layout) Check(ctx context.Context, forgotten func(context.Context) (bool, error)) (f Finding, _ error) {
	found, err := l.readMeta(ctx)
	if err != nil {
		return f, err
	}
	data := l.data.Load().(string)
	f.Missing = found.missing()
	if data != "" && found.Data == "" {
		f.Missing = append(f.Missing, "data")
	}
	if len(f.Missing) > 0 {
		if f.Lost, err = l.isLost(ctx, data, forgotten); err != nil {
			return f, err
		}
		own := l.ownMeta(data) // settleLater settles the field data if it is not known
		if f.Lost {
			own.Data = rand.Text()
		}
		if found, err = l.settleMeta(ctx, own); err != nil {
			return f, err
		}
	}
	if err := l.follow(found); err != nil {
		return f, err
	}
	if found.Data != "" {
		f.Lost = f.Lost || data != "" && data != found.Data
		l.data.Store(found.Data)
	}
	return f, l.settleLater(ctx, found)
}

// reread takes over what dts:meta says. Errors: errGone, ErrOther, or one of Redis.
func (l *Layout) reread(ctx context.Context) error {
	found, err := l.readMeta(ctx)
	switch {
	case err != nil:
		return err
	case len(found.missing()) > 0:
		return errGone
	}
	return l.follow(found)
}

// follow takes over what dts:meta says. Error: ErrOther.
func (l *Layout) follow(found meta) error {
	layout, err := l.adopt(found, l.partitions)
	if err == nil && !slices.Contains(l.serves, layout) {
		err = l.unserved(layout)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOther, err)
	}
	l.present.Store(layout)
	return nil
}

// unserved is the error for data of a layout that this node does not serve.
func (l *Layout) unserved(layout string) error {
	return fmt.Errorf("%s: the data has layout %q, this dtsd serves only layout %s",
		l.Keys.Meta(), layout, strings.Join(l.serves, " and "))
}

// NoteWipe records that Redis has lost all data: what this process remembers of it is wrong.
func (l *Layout) NoteWipe() { l.wipes.Add(1) }

// Wipes is how often NoteWipe was called.
func (l *Layout) Wipes() int64 { return l.wipes.Load() }

// adopt checks the fields of dts:meta partitions and layout, and takes over the number of partitions and the secret.
// expected is 0 if any number will do. It returns the layout, which this node serves or can convert.
func (l *Layout) adopt(found meta, expected int) (string, error) {
	n, err := strconv.Atoi(found.Partitions)
	if err != nil || n < 1 {
		return "", fmt.Errorf("%s: partitions is %q, must be an integer of at least 1", l.Keys.Meta(), found.Partitions)
	}
	if !slices.Contains(l.serves, found.Layout) && !migration.Needed(found.Layout) {
		return "", fmt.Errorf("%w: run a dtsd that serves it, or give this one an empty Redis or another --prefix",
			l.unserved(found.Layout))
	}
	if expected != 0 && expected != n {
		return "", fmt.Errorf("partitions: this Redis was started with %d, which cannot be changed to %d", n, expected)
	}
	if l.partitions != n {
		l.partitions = n
	}
	l.secret.Store(found.Secret)
	if found.Retries == "" {
		return found.Layout, nil
	}
	ms, err := strconv.ParseInt(found.Retries, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%s: retries is %q, must be a time in ms since 1970", l.Keys.Meta(), found.Retries)
	}
	l.retries.Store(ms)
	return found.Layout, nil
}
