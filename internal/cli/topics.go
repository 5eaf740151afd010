package cli

import (
	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/rest"
)

// newTopics returns the pages of `dtsctl help` that belong to no command.
func newTopics() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "exit-codes",
			Short: "What dtsctl's exit code means",
			Long: `dtsctl ends with one of these codes:

  0    done. For "task wait" and --wait: the task succeeded; for "schedule audit": every tick is accounted for;
       for "bench": every task succeeded, and none started early; for "status": nothing is "bad"; for "doctor":
       everything was examined, and no error is left; for lists: all was listed that could be read. What is left
       out, as Redis has it in another form, is told on stderr as a warning, as is how to go on with a list that
       stopped early
  1    the server said no, the task did not succeed, or status, audit or doctor found something; the reason is on stderr,
       with the code that the API gives it in brackets:
         dtsctl: payload: is not valid JSON (invalid)
       Also if a stream ends because something went wrong at the server
  2    bad usage: an unknown command or flag, a missing argument, a file that cannot be read. Nothing was changed
  3    the server cannot be reached, or something that is not DTS answered. What was sent may have arrived:
       a submission with an --id can be repeated safely
  125  "lock": the lock was lost, and the command was ended
  126  "lock": the command cannot be run; 127: there is no such command. Else "lock" ends with the code of the command,
       or 128 and the number of the signal that ended it
  130  interrupted (SIGINT or SIGTERM). "events" and "task logs -f" go on until they are interrupted, and then
       end with 0
  141  nobody read the results any more, as behind "| head -1". The change that "schedule put", "task submit" and
       the like make was made. Commands that change several things go on to their end, and have the code of that`,
		},
		{
			Use:   "environment",
			Short: "The environment variables dtsctl reads",
			Long: `dtsctl reads these environment variables. A flag takes precedence.

  DTSCTL_SERVER     the address of the server, as --server; default ` + rest.DefaultAddress + `
  DTSCTL_NAMESPACE  the namespace of the tasks and schedules, as --namespace
  VISUAL, EDITOR    the editor of "schedule edit", in words separated by blanks; VISUAL counts before EDITOR
  NO_COLOR          if it is not empty, the output has no colours
  HTTP_PROXY, HTTPS_PROXY, NO_PROXY
                    a proxy on the way to the server; none is used for this machine`,
		},
		{
			Use:   "formats",
			Short: "How values are written, and how results are printed",
			Long: `Durations are written as in Go: 250ms, 1m30s, 24h.

Times (--at) are RFC 3339, as 2026-01-02T15:04:05Z, or local, as "2026-01-02 15:04", "2026-01-02 15:04:05" or
2026-01-02 (at midnight); those of "schedule put" are in the zone of --timezone, if there is one. Those of the past
(--since, --from) can also be how long ago they were, as 2h.

Texts (--payload, --data, --stdin) are given literally, or as @FILE, or as @- for standard input.

What is printed (-o)
  table  On a terminal, aligned columns with a header, colours, and times like "in 3 minutes". Else one line
         per thing with the same columns, separated by tabs, without a header; times are RFC 3339 in UTC, durations
         as in Go, tabs and line breaks within a value become spaces.
  json   What the API answered, with &, < and > as they are. Pages of a list are joined. Events and log lines are one
         JSON object per line; several tasks (task cancel A B) are one document each.
  yaml   The same in YAML; several documents are separated by "---".`,
		},
	}
}
