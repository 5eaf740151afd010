package chaos

import (
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
)

// followUpOf is a task that followed the second attempt of the task of twoTries.
func followUpOf(id string) wire.Task {
	parent := &wire.Parent{ID: "t", State: wire.StateSucceeded, Attempt: 2}
	return wire.Task{ID: id, State: wire.StateSucceeded, Parent: parent}
}

func TestEvidence_EachEndHasItsFollowUp(t *testing.T) {
	t.Parallel()
	there := []wire.Task{followUpOf("t@e2")}
	other := followUpOf("t@e2")
	other.Parent.State = wire.StateFailed
	for name, test := range map[string]struct {
		when     wire.FollowUpWhen
		found    []wire.Task
		touched  bool
		full     bool
		want     string
		vanished bool
	}{
		"as it was":            {when: wire.FollowUpWhenEnded, found: there},
		"missing":              {when: wire.FollowUpWhenSucceeded, want: "nothing follows"},
		"missing, and touched": {when: wire.FollowUpWhenSucceeded, touched: true, want: "nothing follows"},
		"missing, and full":    {when: wire.FollowUpWhenSucceeded, full: true},
		"not to be":            {when: wire.FollowUpWhenFailed, found: there, want: "must not follow"},
		"not to be, touched":   {when: wire.FollowUpWhenFailed, found: there, touched: true},
		"two of them": {
			when: wire.FollowUpWhenEnded, found: []wire.Task{followUpOf("t@e1"), there[0]}, want: "must",
		},
		"another state": {when: wire.FollowUpWhenEnded, found: []wire.Task{other}, want: "says that it follows"},
		"no parent":     {when: wire.FollowUpWhenEnded, found: []wire.Task{{ID: "t@e2"}}, want: "it follows nothing"},
		"none":          {},
		"none, and one": {found: there, want: "must not follow"},
		"not known":     {when: wire.FollowUpWhenSucceeded, vanished: true, full: true, found: there},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := twoTries()
			if test.vanished {
				e.task = nil
			}
			isTouched := func(string) bool { return test.touched }
			expect(t, e.judgeFollowUps(test.when, test.found, isTouched, test.full), test.want)
		})
	}
}

func TestCaseFile_OnlyALossExcusesWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	r, s := &round{}, &ticking{id: "s"}
	r.past.addLoss(between(1, 2))
	file := &caseFile{r: r, known: map[string]bool{"known": true}, calls: map[string][]call{
		"known@e1":       {called(1, 5, 6, "a")},
		"lost":           {called(1, 1.5, 3, "b")},
		"lost@e1":        {called(1, 5, 6, "c")},
		"lost@e1@e1":     {called(1, 7, 8, "d")},
		"nobody's":       {called(1, 5, 6, "e")},
		"nobody's@e1":    {called(1, 7, 8, "f")},
		"never there@e1": {called(1, 7, 8, "g")},
		s.idOf(at(1.5)):  {called(1, 5, 6, "h")},
		s.idOf(at(4)):    {called(1, 5, 6, "i")},
	}}
	strange := map[string]bool{
		"known@e1": true, "nobody's": true, "nobody's@e1": true, "never there@e1": true, s.idOf(at(4)): true,
	}
	for id := range file.calls {
		if got := file.isStrange(id); got != strange[id] {
			t.Errorf("%s is strange: %t, want %t", id, got, strange[id])
		}
	}
}
