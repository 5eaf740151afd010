package status

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fleet adds what is wrong with leaders and nodes.
func (j *judge) fleet() {
	j.leaders()
	for _, n := range j.Nodes {
		if n.Alive || n.LastBeat.IsZero() || j.Now.Sub(n.LastBeat) > DiedWithin {
			continue
		}
		j.add(Reason{
			Code: NodeDied, Severity: Warn, Since: n.LastBeat, Kind: "node", ID: n.ID,
			Detail: fmt.Sprintf("The node %s has died. If it ran tasks, their attempts count as lost, and the tasks are "+
				"tried again.", n.ID),
			Do: fmt.Sprintf("See what it ran, and where that runs now: dtsctl node get %s.", n.ID),
		})
	}
}

// leaders adds that partitions have no leader.
func (j *judge) leaders() {
	if len(j.Unled) == 0 {
		return
	}
	r := Reason{Code: NoLeader, Severity: Bad, Kind: "partition", ID: list(j.Unled)}
	r.Detail = fmt.Sprintf("Nobody leads %s, so what is due there is not handed over.", partitions(j.Unled))
	r.Do = "Look at the logs of the scheduler nodes."
	if !slices.ContainsFunc(j.Nodes, func(n Node) bool { return n.Alive && n.Leads }) {
		r.Do = "Start a scheduler: dtsd serve --roles scheduler."
	}
	of := r
	of.ID = "" // others may join them
	if r.Since = j.since(of); j.Now.Sub(r.Since) >= NotLed {
		j.add(r)
	}
}

func partitions(numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("the partition %d", numbers[0])
	}
	return fmt.Sprintf("%d partitions", len(numbers))
}

// list is numbers, separated by commas.
func list(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
