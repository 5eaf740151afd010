package listing

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/store/layout"
	"github.com/dts-sched/dts/internal/task"
)

// reload reads the index if it is not as this packer left it. noted begins with its revision.
func (p *Packer) reload(ctx context.Context, noted []string) error {
	revision := 0
	if len(noted) > 0 {
		revision, _ = strconv.Atoi(noted[0])
	}
	switch {
	case revision == p.revision && p.l.MayHaveLost():
		return p.forgetLost(ctx)
	case revision == p.revision:
		return nil
	case revision == 0:
		p.partIndex, p.replaced = partIndex{}, nil
		return nil
	}
	fields, err := p.l.DB.HGetAll(ctx, string(p.keys.Listed())).Result()
	if err != nil {
		return layout.Unavailable(err)
	}
	p.builds = false
	p.partIndex, err = decodeIndex(fields)
	p.revision = revision
	if err != nil || p.term != p.token && p.term != p.token-1 {
		// Nobody can read it, or a leader came between that kept no index, as one of an earlier release: it begins anew.
		p.partIndex = partIndex{}
	}
	if err := p.forgetLost(ctx); err != nil {
		return err
	}
	return p.findReplaced(ctx)
}

// forgetLost forgets the index if Redis has lost writes since it was begun, so that it begins anew: a leader may have
// read notes that Redis lost, and have packed others. The revision of an index is at least the time of its beginning.
func (p *Packer) forgetLost(ctx context.Context) error {
	losses, err := p.l.Losses(ctx, p.number)
	if err != nil {
		return err
	}
	for _, l := range losses {
		p.lost = max(p.lost, l.Until.UnixMilli())
	}
	if p.lost > max(int64(p.revision), p.begun) {
		p.partIndex, p.builds = partIndex{}, false
	}
	return nil
}

// beginAnew begins to build the index from all tasks. built is how much is built; "" removes the index.
func (p *Packer) beginAnew(ctx context.Context, built string) error {
	p.partIndex, p.cursor, p.done = partIndex{}, 0, 0
	call := p.call(built)
	call.Revision = 0
	if err := p.run(ctx, call); err != nil {
		return err
	}
	p.begun = p.lost
	p.built, p.builds, p.term, p.replaced = built, built != "", p.token, nil
	return nil
}

// scan returns the names of some tasks that the build has not read yet.
func (p *Packer) scan(ctx context.Context) (refs []task.Ref, _ error) {
	for len(refs) < builtAtOnce {
		fields, cursor, err := p.l.DB.HScan(ctx, string(p.keys.Defs()), p.cursor, "", readAtOnce).Result()
		if err != nil {
			return nil, layout.Unavailable(err)
		}
		for i := 0; i < len(fields); i += 2 {
			if ref, err := task.ParseRef(fields[i]); err == nil {
				refs = append(refs, ref)
			}
		}
		if p.cursor = cursor; cursor == 0 {
			return refs, nil
		}
	}
	return refs, nil
}

// progress is how far the index is built when the tasks are packed that were scanned.
func (p *Packer) progress(ctx context.Context) string {
	if p.cursor == 0 {
		return builtAll
	}
	p.done += builtAtOnce
	all, err := p.l.DB.HLen(ctx, string(p.keys.Defs())).Result()
	if err != nil {
		all = 0
	}
	return fmt.Sprintf("%d %d", p.done, max(int(all), p.done))
}

// findReplaced reads which segments have rows but are not in the index: a leader before may have left them.
func (p *Packer) findReplaced(ctx context.Context) error {
	names, err := p.l.DB.HKeys(ctx, string(p.keys.ListedRows())).Result()
	if err != nil {
		return layout.Unavailable(err)
	}
	seen := make(map[int]bool, len(p.segments))
	for _, s := range p.segments {
		seen[s.Number] = true
	}
	p.replaced = nil
	for _, name := range names {
		text, _, _ := strings.Cut(name, ".")
		if number, err := strconv.Atoi(text); err == nil && !seen[number] {
			seen[number] = true
			p.replaced = append(p.replaced, replaced{number, clock.Now()})
		}
	}
	return nil
}
