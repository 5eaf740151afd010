package layout

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/testkit"
)

// epoch is the time from which spans count.
var epoch = time.UnixMilli(1_800_000_000_000).UTC()

// span is a loss between two times, in seconds.
func span(from, until int) schedule.Loss {
	return schedule.Loss{From: epoch.Add(time.Duration(from) * time.Second), Until: epoch.Add(time.Duration(until) * time.Second)}
}

// recordAll has a node notice and record losses of partition 0, and of nothing else.
func recordAll(t *testing.T, l *Layout, losses ...schedule.Loss) {
	t.Helper()
	for _, loss := range losses {
		l.NoticeLoss(0, loss.From, loss.Until, "a heartbeat")
		l.RecordLosses(t.Context(), map[int]bool{0: true})
	}
}

// recorded reads the losses of partition 0, the earliest first.
func recorded(t *testing.T, l *Layout) []schedule.Loss {
	t.Helper()
	losses, err := l.Losses(t.Context(), 0)
	testkit.Must(t, err)
	slices.SortFunc(losses, func(a, b schedule.Loss) int { return cmp.Or(a.From.Compare(b.From), a.Until.Compare(b.Until)) })
	return losses
}

func TestNoticeLoss_RecordsAllTimesThatAreNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		noticed, want []schedule.Loss
		told          int
	}{
		"one":                               {[]schedule.Loss{span(0, 2)}, []schedule.Loss{span(0, 2)}, 1},
		"again":                             {[]schedule.Loss{span(0, 2), span(0, 2)}, []schedule.Loss{span(0, 2)}, 1},
		"a part of it":                      {[]schedule.Loss{span(0, 3), span(1, 2)}, []schedule.Loss{span(0, 3)}, 1},
		"earlier":                           {[]schedule.Loss{span(1, 3), span(0, 2)}, []schedule.Loss{span(0, 3)}, 1},
		"later":                             {[]schedule.Loss{span(0, 2), span(1, 3)}, []schedule.Loss{span(0, 3)}, 1},
		"a second failover":                 {[]schedule.Loss{span(0, 2), span(40, 43)}, []schedule.Loss{span(0, 2), span(40, 43)}, 2},
		"the first again, after a second":   {[]schedule.Loss{span(0, 2), span(40, 43), span(1, 3)}, []schedule.Loss{span(0, 3), span(40, 43)}, 3},
		"noticed by a clock that is behind": {[]schedule.Loss{span(5, 3)}, []schedule.Loss{span(3, 5)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := 0
			l, err := Open(t.Context(), Options{
				DB: redistest.Start(t).DB(t), Lost: func(int, schedule.Loss, string) { told++ },
			})
			testkit.Must(t, err)
			recordAll(t, l, c.noticed...)
			if got := recorded(t, l); !slices.Equal(got, c.want) || told != c.told {
				t.Errorf("%v are recorded, and %d were told of, want %v and %d", got, told, c.want, c.told)
			}
		})
	}
}

func TestNoticeLoss_IsRecordedWithTheNextOneIfItCouldNotBe(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	l, err := Open(t.Context(), Options{DB: redistest.Open(t, proxy.URL())})
	testkit.Must(t, err)
	proxy.Cut()
	recordAll(t, l, span(0, 2))
	proxy.Mend()
	recordAll(t, l, span(1, 2)) // which is known
	if got := recorded(t, l); !slices.Equal(got, []schedule.Loss{span(0, 2)}) {
		t.Errorf("%v are recorded, want %v", got, span(0, 2))
	}
}

func TestRetryRecordingLosses_RecordsWhatCouldNotBeRecorded(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	l, err := Open(t.Context(), Options{DB: redistest.Open(t, proxy.URL())})
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.RetryRecordingLosses(ctx) }()
	proxy.Cut()
	recordAll(t, l, span(0, 2))
	proxy.Mend()
	testkit.Eventually(t, "the loss is recorded", func() bool { return slices.Equal(recorded(t, l), []schedule.Loss{span(0, 2)}) })
	stop()
	testkit.Must(t, testkit.Receive(t, ended, "the end of RetryRecordingLosses"))
}

func TestRecordLossesAgain_RecordsWhatAFurtherFailoverLost(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t).DB(t)
	l, err := Open(t.Context(), Options{DB: db})
	testkit.Must(t, err)
	l.RecordLossesAgain(t.Context()) // of which there are none
	recordAll(t, l, span(0, 2))
	testkit.Must(t, db.Del(t.Context(), string(l.Keys.Partition(0).Losses())).Err())
	l.RecordLossesAgain(t.Context())
	if got := recorded(t, l); !slices.Equal(got, []schedule.Loss{span(0, 2)}) {
		t.Errorf("%v are recorded, want %v", got, span(0, 2))
	}
}
