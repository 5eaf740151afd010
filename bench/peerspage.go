package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

const peersHead = `# DTS beside other libraries

Written by ` + "`make bench-peers`" + `;
how to run it is in [docs/performance.md](../docs/performance.md#beside-other-libraries).

Each library is measured in the form in which people use it: one program that submits, leads and works, in one process.
Its settings are its own defaults but for those below. All have 64 tasks at once, one queue, handlers that do nothing,
and payloads of 200 bytes of JSON. Each run has a new process on a new server. Before a program is measured, it submits
and runs half as many tasks, because Node compiles code only when it has run for a while. Then its worker stops. In a
round, the peers have turns, and each round begins with another one.

A run ends when the server itself has all tasks as ended: by asynq's counter of processed deliveries, which DTS keeps as
well, by BullMQ's set of completed jobs, or by the state of River's jobs. A run fails unless the handlers were called
once for each task, and the server has all tasks as ended well.

`

const peersReading = `
Median of the rounds, and the smallest and the largest in parentheses. ` + "`DTS / it`" + ` is the ratio of the
rates in one round. CPU is that of all processes of the server, and of the program, divided by the number of tasks.

The libraries promise different things, and do more or less for a task. Redis writes nothing to disk here, while
PostgreSQL waits for the disk at each commit: so there are two rows for River. A program in Node computes on one
processor.
`

// muchElse is the share of the machine from which on other processes change what is measured.
const muchElse = 0.1

// peerTables are the results of the peers in the order in which the page has them.
type peerTables struct {
	set     peerSet
	tasks   int // in a run
	results []result
}

// write writes the results as a page.
func (t peerTables) write(w io.Writer, c conditions) error {
	var page strings.Builder
	page.WriteString(peersHead)
	writeConditions(&page, append([][2]string{
		{"date", c.date},
		{"DTS", "commit " + c.commit},
		{"tasks in a run", thousands(int64(t.tasks))},
		{"Go, Redis", fmt.Sprintf("%s, %s (stock settings, no persistence)", c.golang, c.redis)},
		{"machine", fmt.Sprintf("%s, %d cores, %s, %s; the program and its server share it",
			c.cpu, c.cores, c.memory, c.kernel)},
	}, t.set.software...))
	page.WriteString("\n| | library | settings |\n|---|---|---|\n")
	for _, p := range t.set.peers {
		fmt.Fprintf(&page, "| %s | %s | %s |\n", p.name, p.library, p.settings)
	}
	for _, sentence := range t.set.missing {
		fmt.Fprintf(&page, "\n%s\n", sentence)
	}
	page.WriteString(peersReading)
	t.inShort(&page)
	for _, r := range t.results {
		t.section(&page, r)
	}
	_, err := io.WriteString(w, page.String())
	return err
}

// inShort writes the medians of all rows as one table.
func (t peerTables) inShort(page *strings.Builder) {
	page.WriteString("\n## In short\n\nTasks a second, medians.\n\n| |")
	for _, r := range t.results {
		fmt.Fprintf(page, " %s |", r.row.title)
	}
	page.WriteString("\n|---|" + strings.Repeat("---|", len(t.results)) + "\n")
	for _, p := range t.set.peers {
		fmt.Fprintf(page, "| %s |", p.name)
		for _, r := range t.results {
			if s, has := r.figure(peerFigure(p.name, peerRate)); has {
				fmt.Fprintf(page, " %s |", format(s.median))
			} else {
				page.WriteString(" |")
			}
		}
		page.WriteString("\n")
	}
}

// section writes a row: a table with a line for each peer, the fastest first.
func (t peerTables) section(page *strings.Builder, r result) {
	fmt.Fprintf(page, "\n## %s\n\n%s\n\nRow `%s`, %d rounds; other processes used up to %.0f %% of the machine.\n",
		r.row.title, r.row.method, r.row.name, r.rounds, r.others*100)
	if r.others > muchElse {
		page.WriteString("\nThat is too much for rates to be compared; CPU times change less.\n")
	}
	if r.err != nil {
		fmt.Fprintf(page, "\nFailed: %s\n", strings.ReplaceAll(r.err.Error(), "\n", "; "))
	}
	fastest := t.fastest(r)
	if len(fastest) == 0 {
		return
	}
	columns := slices.DeleteFunc(slices.Clone(peerColumns), func(column string) bool {
		return !slices.ContainsFunc(fastest, func(p peer) bool { _, has := r.figure(peerFigure(p.name, column)); return has })
	})
	fmt.Fprintf(page, "\n| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, p := range fastest {
		fmt.Fprintf(page, "| %s |", p.name)
		for _, column := range columns {
			if s, has := r.figure(peerFigure(p.name, column)); has {
				fmt.Fprintf(page, " %s (%s) |", quantity(s), spread(s))
			} else {
				page.WriteString(" |")
			}
		}
		page.WriteString("\n")
	}
}

// fastest are the peers that a row has measured, the one with the largest rate first.
func (t peerTables) fastest(r result) []peer {
	rate := func(p peer) float64 { s, _ := r.figure(peerFigure(p.name, peerRate)); return s.median }
	measured := slices.DeleteFunc(slices.Clone(t.set.peers), func(p peer) bool { return rate(p) == 0 })
	slices.SortStableFunc(measured, func(a, b peer) int { return cmp.Compare(rate(b), rate(a)) })
	return measured
}

// figure returns the figure of a name.
func (r result) figure(name string) (summary, bool) {
	at := slices.IndexFunc(r.summaries, func(s summary) bool { return s.name == name })
	if at < 0 {
		return summary{}, false
	}
	return r.summaries[at], true
}
