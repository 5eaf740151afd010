package handover

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFleet_SaysWhatIsServed(t *testing.T) {
	t.Parallel()
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf("%s%04d", strings.Repeat("x", 40), i)
	}
	node := func(capacity int, types []string, queues ...string) Node {
		n := Node{Types: types, Capacity: capacity, Queues: map[string]int{}}
		for _, q := range queues {
			n.Queues[q] = 1
		}
		return n
	}
	guest := func(types []string, queues ...string) Node {
		n := node(1, types, queues...)
		n.Guest = true
		return n
	}
	for name, c := range map[string]struct {
		nodes   []Node
		foreign map[string]int
		want    string
		leftOut int
	}{
		"nobody":   {want: "\n"},
		"no slots": {nodes: []Node{node(0, []string{"a"}, "q")}, want: "\n"},
		"several nodes": {
			nodes: []Node{node(1, []string{"b"}, "q", "r"), node(1, []string{"a"}, "q", "s")},
			want:  ",q,s, a \n,q,r, b \n",
		},
		"any type": {nodes: []Node{node(1, []string{"b"}, "q"), node(1, nil, "q")}, want: ",q, * \n"},
		"asynq's own server": {
			nodes: []Node{node(1, []string{"b"}, "q", "r")}, foreign: map[string]int{"q": 2, "none": 0},
			want: ",q, * \n,q,r, b \n",
		},
		"many types of a node": {nodes: []Node{node(1, many, "q")}, want: ",q, " + strings.Join(many, " ") + " \n"},
		"too many of guests": {
			nodes: []Node{
				guest(many, "most"), guest(many, "most"), node(1, []string{"b"}, "q"),
				guest(many[:1000], "more"), guest([]string{"c"}, "q"),
			},
			want: ",q, b c \n,more, " + strings.Join(many[:1000], " ") + " \n", leftOut: 2,
		},
		"many types of a node and few of a guest": {
			nodes: []Node{guest([]string{"c"}, "r"), node(1, many, "q")},
			want:  ",r, c \n,q, " + strings.Join(many, " ") + " \n",
		},
	} {
		p := New(Options{})
		p.SetFleet(Fleet{Workers: c.nodes})
		p.ForeignRead(nil, c.foreign, time.Time{})
		if got := p.fleet.served; got != c.want {
			t.Errorf("%s: %.200q, want %.200q", name, got, c.want)
		}
		if p.LeftOut() != c.leftOut {
			t.Errorf("%s: %d are left out, want %d", name, p.LeftOut(), c.leftOut)
		}
	}
}
