package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestReadStat_AddsUpTheTimeOfEndedChildren(t *testing.T) {
	t.Parallel()
	got, err := readStat("812 (a) b (c) S 17 812 812 0 -1 4194560 9 0 0 0 250 50 30 20 20 0 1 0 100 1000 10")
	if err != nil || got != (processStat{parent: 17, cpu: 3.5}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, line := range []string{"", "812 (a) S 17", "812 a S 17 812 812 0 -1 4194560 9 0 0 0 250 50 30 20 20 0 1 0"} {
		if got, err := readStat(line); err == nil {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}

func TestNewestFirst_ComparesNumbers(t *testing.T) {
	t.Parallel()
	got := newestFirst([]string{"/p/9.6/bin", "/p/15/bin", "/p/x/bin", "/p/9.5/bin"})
	if want := []string{"/p/15/bin", "/p/9.6/bin", "/p/9.5/bin", "/p/x/bin"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVersions_AreReadFromAnswers(t *testing.T) {
	t.Parallel()
	if got, err := nodeMajor("v20.20.2"); err != nil || got != 20 {
		t.Errorf("Node: %d, %v", got, err)
	}
	if got, err := nodeMajor("unknown"); err == nil {
		t.Errorf("an unknown Node is read as %d", got)
	}
	for answer, want := range map[string]string{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": "15.18",
		"postgres (PostgreSQL) 18.1\n":                           "18.1",
		"?":                                                      "unknown",
	} {
		if got := postgresVersion(answer); got != want {
			t.Errorf("%q: %q, want %q", answer, got, want)
		}
	}
}

func TestPeerSet_LeavesOutWhoIsMissing(t *testing.T) {
	t.Parallel()
	var set peerSet
	set.join("One", "Get it.", func() ([]peer, [][2]string, error) { return nil, nil, errors.New("no\n such thing") })
	set.join("Two", "Get it.", func() ([]peer, [][2]string, error) {
		return []peer{{name: "Two"}}, [][2]string{{"Two", "2"}}, nil
	})
	if want := []string{"One is left out: no such thing. Get it."}; !slices.Equal(set.missing, want) {
		t.Errorf("missing: %q, want %q", set.missing, want)
	}
	if len(set.peers) != 1 || set.peers[0].name != "Two" || len(set.software) != 1 {
		t.Errorf("taking part: %+v, %q", set.peers, set.software)
	}
}

func TestPeerRow_TakesTurnsAndComparesWithinARound(t *testing.T) {
	t.Parallel()
	var order []string
	r := peerRow([]peer{{name: ownPeer}, {name: "One"}, {name: "Two"}}, row{},
		func(_ context.Context, b *bench, p peer) (peerFigures, error) {
			order = append(order, p.name)
			rate := map[string]float64{ownPeer: 100, "One": 50, "Two": 200}[p.name]
			return peerFigures{rate: rate * float64(b.round+1)}, nil
		})
	var rounds []figures
	for round := range 2 {
		f, err := r.run(t.Context(), &bench{round: round})
		if err != nil {
			t.Fatal(err)
		}
		rounds = append(rounds, f)
	}
	if want := []string{ownPeer, "One", "Two", "One", "Two", ownPeer}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	summaries, err := summarize(rounds, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := result{summaries: summaries}
	for name, want := range map[string]float64{"One: DTS / it": 2, "Two: DTS / it": 0.5, "Two: rate": 300} {
		if got, _ := of.figure(name); got.median != want {
			t.Errorf("%s is %v, want %v", name, got.median, want)
		}
	}
	if _, has := of.figure(peerFigure(ownPeer, peerRatio)); has {
		t.Error("DTS is compared with itself")
	}
}

func TestPeerTables_BeginWithTheFastest(t *testing.T) {
	t.Parallel()
	var f figures
	own := peerFigures{rate: 2000, server: 60, self: 70}
	f.addPeer(ownPeer, own, own)
	f.addPeer("One", peerFigures{rate: 4000, server: 50, self: 40, first: 3}, own)
	summaries, err := summarize([]figures{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tables := peerTables{
		set: peerSet{
			peers:   []peer{{name: ownPeer}, {name: "One", library: "One 1.2", settings: "none"}, {name: "Two"}},
			missing: []string{"Three is left out."}, software: [][2]string{{"Node", "v20"}},
		},
		tasks: 20_000,
		results: []result{
			{row: row{name: "peers-drain", title: "Drain", method: "So."}, rounds: 1, summaries: summaries, others: 0.5},
			{row: row{name: "peers-herd", title: "Herd", method: "So."}, err: errors.New("broken")},
		},
	}
	var page strings.Builder
	if err := tables.write(&page, conditions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| Node | v20 |", "| One | One 1.2 | none |", "Three is left out.", "| DTS | 2,000 | |\n| One | 4,000 | |\n",
		"| | rate | DTS / it | first handler after | CPU of the server | CPU of the program |\n",
		"| One | 4,000 tasks/s (4,000–4,000) | 0.50 x (0.50–0.50) | 3 ms (3–3) | " +
			"50 µs/task (50–50) | 40 µs/task (40–40) |\n" +
			"| DTS | 2,000 tasks/s (2,000–2,000) | | | 60 µs/task (60–60) | 70 µs/task (70–70) |\n",
		"used up to 50 % of the machine.\n\nThat is too much", "used up to 0 % of the machine.\n\nFailed: broken",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
}

func TestPeerProcess_SaysWhyAStepFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ program, want string }{
		"it answers so":     {`echo '{}'; read step; echo '{"error": "no such step"}'`, "step work: no such step"},
		"it ends":           {`echo '{}'; read step; echo 'out of memory' >&2`, "out of memory"},
		"it says something": {`echo '{}'; read step; echo 'hello'`, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{}
			p, err := b.startPeer(t.Context(), []string{"sh", "-c", c.program}, "redis://")
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.ask(step{Do: "work"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if err := b.unwind(0); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPeerRows_AreNotAmongTheOthers(t *testing.T) {
	t.Parallel()
	for _, o := range []options{{}, {smoke: true}} {
		chosen, err := o.chosen(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range chosen {
			if strings.HasPrefix(r.name, "peers-") {
				t.Errorf("%+v chooses row %s", o, r.name)
			}
		}
	}
	chosen, err := options{peers: true, rows: "peers-bulk"}.chosen([]peer{{name: ownPeer, bulk: true}})
	if err != nil || len(chosen) != 1 || chosen[0].name != "peers-bulk" {
		t.Errorf("chosen: %+v, %v", chosen, err)
	}
}

// The README and the docs show the figures that were measured last.
func TestPeers_AreInTheDocsAsMeasured(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, short, _ := strings.Cut(read("PEERS.md"), "\n## In short\n")
	short, _, _ = strings.Cut(short, "\n## ")
	lines := 0
	for line := range strings.Lines(short) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		lines++
		for _, name := range []string{"../README.md", "../docs/performance.md"} {
			if !strings.Contains(read(name), line) {
				t.Errorf("%s lacks this line of PEERS.md:\n%s", name, line)
			}
		}
	}
	if lines < 6 {
		t.Errorf("PEERS.md has %d lines in its table", lines)
	}
}
