package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// verdict says whether the goal of a figure is reached.
func verdict(s summary) string {
	switch {
	case s.goal == nil:
		return ""
	case s.met():
		return "reached"
	}
	return "missed"
}

func bound(s summary) string {
	if s.goal == nil {
		return ""
	}
	return s.goal.String()
}

func spread(s summary) string { return format(s.min) + "–" + format(s.max) }

func quantity(s summary) string { return strings.TrimSpace(format(s.median) + " " + s.unit) }

// printTable writes the results for a terminal.
func printTable(w io.Writer, results []result) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range results {
		fmt.Fprintf(table, "%s (%s; %d rounds, %s; others up to %.0f %%)\n", r.row.title, r.row.name, r.rounds, r.took.Round(time.Second), r.others*100)
		for _, s := range r.summaries {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", s.name, quantity(s), spread(s), bound(s), verdict(s))
		}
		if r.err != nil {
			fmt.Fprintf(table, "  failed: %v\n", r.err)
		}
	}
	return table.Flush()
}

const head = `# Results of the benchmark

Written by ` + "`make bench`" + `; what the rows mean and how to run them is in [docs/performance.md](../docs/performance.md).

`

// writeConditions writes names and values as a table.
func writeConditions(page *strings.Builder, lines [][2]string) {
	page.WriteString("| | |\n|---|---|\n")
	for _, line := range lines {
		fmt.Fprintf(page, "| %s | %s |\n", line[0], line[1])
	}
}

// writeResults writes the results as a page.
func writeResults(w io.Writer, c conditions, results []result) error {
	var page strings.Builder
	page.WriteString(head)
	writeConditions(&page, [][2]string{
		{"date", c.date},
		{"DTS", "commit " + c.commit},
		{"asynq, Redis, Go", fmt.Sprintf("%s, %s (stock settings, no persistence), %s", c.asynq, c.redis, c.golang)},
		{"machine", fmt.Sprintf("%s, %d cores, %s, %s; Redis, DTS, asynq and the callers share it", c.cpu, c.cores, c.memory, c.kernel)},
		{"commands/s", map[bool]string{
			true:  "this Redis counts the commands inside scripts as well as the calls of scripts",
			false: "this Redis counts the calls of scripts only, not the commands inside them",
		}[c.scripts]},
	})
	page.WriteString("\nMedian of the rounds, with the smallest and the largest. A goal is held against the median.\n")
	for _, r := range results {
		section(&page, r)
	}
	_, err := io.WriteString(w, page.String())
	return err
}

func section(page *strings.Builder, r result) {
	fmt.Fprintf(page, "\n## %s\n\n%s\n\nRow `%s`, %d rounds; processes other than the bench and Redis used up to %.0f %% of the machine.\n\n",
		r.row.title, r.row.method, r.row.name, r.rounds, r.others*100)
	if r.err != nil {
		fmt.Fprintf(page, "Failed: %s\n\n", strings.ReplaceAll(r.err.Error(), "\n", "; "))
	}
	if len(r.summaries) == 0 {
		return
	}
	page.WriteString("| figure | median | spread | goal | |\n|---|---|---|---|---|\n")
	for _, s := range r.summaries {
		figure := s.name
		if s.goal != nil {
			figure = "**" + figure + "**"
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s | %s |\n", figure, quantity(s), spread(s), bound(s), verdict(s))
	}
}
