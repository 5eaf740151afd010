package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/cluster"
)

func TestKeptWarnings_AreFoundAgainWhenTheListChanges(t *testing.T) {
	t.Parallel()
	first := cluster.View{At: time.UnixMilli(1), Nodes: make([]cluster.Node, 2)}
	later, other, fewer := first, first, first
	later.At = time.UnixMilli(2)
	other.Nodes = make([]cluster.Node, 2)
	fewer.Nodes = first.Nodes[:1]
	for name, second := range map[string]cluster.View{"later": later, "other nodes": other, "fewer nodes": fewer} {
		var k keptWarnings
		k.of(first, "http", "mail", func() string { return "old" })
		if got := k.of(first, "http", "mail", func() string { return "new" }); got != "old" {
			t.Errorf("%s: with the same list, the warning is %q", name, got)
		}
		if got := k.of(second, "http", "mail", func() string { return "new" }); got != "new" {
			t.Errorf("%s: with another list, the warning is %q", name, got)
		}
	}
}

func TestKeptWarnings_TellTypesAndQueuesApart(t *testing.T) {
	t.Parallel()
	var k keptWarnings
	kinds := [][2]string{{"http", "mail"}, {"http", "default"}, {"shell", "mail"}, {"httpm", "ail"}}
	for range 2 {
		for i, kind := range kinds {
			want := fmt.Sprint(i)
			if got := k.of(cluster.View{}, kind[0], kind[1], func() string { return want }); got != want {
				t.Errorf("the warning of %v is %q, want %q", kind, got, want)
			}
		}
	}
}

// What is known stays when there are many kinds, until a further one comes.
func TestKeptWarnings_StayWhileNoKindIsNew(t *testing.T) {
	t.Parallel()
	var k keptWarnings
	found := 0
	ask := func(i int) { k.of(cluster.View{}, "http", fmt.Sprint(i), func() string { found++; return "" }) }
	for range 2 {
		for i := range keptLimit {
			ask(i)
		}
	}
	if found != keptLimit {
		t.Errorf("%d warnings were looked for, want %d", found, keptLimit)
	}
	ask(keptLimit)
	if len(k.known) > keptLimit || found != keptLimit+1 {
		t.Errorf("%d warnings are kept, and %d were looked for", len(k.known), found)
	}
}
