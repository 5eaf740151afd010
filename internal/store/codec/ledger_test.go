package codec_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestDecodeLedger_ReadsARecord(t *testing.T) {
	const member = "20260102T120000Z skipped_overlap 0 15 1767355200015 3 the task of x has not ended"
	got, err := codec.DecodeLedger(member, noon.UnixMilli())
	testkit.Must(t, err)
	want := []schedule.Entry{{
		Name: "20260102T120000Z", Tick: noon, Outcome: schedule.SkippedOverlap, Reason: "the task of x has not ended",
		Late: 15 * time.Millisecond, DecidedAt: noon.Add(15 * time.Millisecond), Revision: 3,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := codec.EncodeEntry(got[0]); again != member {
		t.Errorf("written again it is %q, want %q", again, member)
	}
}

func TestDecodeLedger_ReadsEachTickOfAChunk(t *testing.T) {
	got, err := codec.DecodeLedger("fired 3 4 1767355260500 60000 15,250:7,250:0,60000:1200", noon.UnixMilli())
	testkit.Must(t, err)
	var want []string
	for _, e := range got {
		want = append(want, codec.EncodeEntry(e))
	}
	if diff := cmp.Diff([]string{
		"20260102T120000Z fired 1 15 1767355200015 3 ",
		"20260102T120000.250Z fired 1 7 1767355200257 3 ",
		"20260102T120000.500Z fired 1 0 1767355200500 3 ",
		"20260102T120100.500Z fired 1 1200 1767355261700 3 ",
	}, want); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, e := range got {
		name, at := schedule.TickName(e.Tick), e.Tick.Add(e.Late)
		if e.Name != name || !e.DecidedAt.Equal(at) || !e.HasTask {
			t.Errorf("%+v, want the name %s, decided at %s, with a task", e, name, at)
		}
	}
}

func TestDecodeLedger_RefusesOtherForms(t *testing.T) {
	for member, want := range map[string]string{
		"":                       `the ledger's record "" has 1 fields, want 7`,
		"20260102T120000Z fired": `the ledger's record "20260102T120000Z fired" has 2 fields, want 7`,
		"20260102T120000Z odd 1 0 1767355200015 3 ": `the ledger's record "20260102T120000Z odd 1 0 1767355200015 3 " ` +
			`has no outcome, or no time`,
		"20260102T120000Z fired 1 0 x 3 ": `the ledger's record "20260102T120000Z fired 1 0 x 3 " has no outcome, or no time`,

		"fired 3 1 1000 0":       `the ledger's chunk "fired 3 1 1000 0" has 5 fields, want 6`,
		"fired 3 2 1000 0 5,x":   `the ledger's chunk "fired 3 2 1000 0 5,x": a tick is "x", want its lateness in ms`,
		"fired 3 2 1000 0 5,":    `the ledger's chunk "fired 3 2 1000 0 5,": a tick is "", want its lateness in ms`,
		"fired 3 2 1000 0 5,10:": `the ledger's chunk "fired 3 2 1000 0 5,10:": a tick is "", want its lateness in ms`,
	} {
		if _, err := codec.DecodeLedger(member, 0); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", member, err, want)
		}
	}
}
