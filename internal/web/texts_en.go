package web

// english are the English texts that depend on a number, their first argument: for one, and for others. All other
// English texts stand where they are used.
var english = map[string][2]string{
	"%d tasks run again, as if they were new.": {
		"One task runs again, as if it was new.", "%d tasks run again, as if they were new.",
	},
	"Retry %d tasks": {"Retry one task", "Retry %d tasks"},
	"%d tasks are cancelled. Workers are asked to stop those that run.": {
		"One task is cancelled. If it runs, its worker is asked to stop it.",
		"%d tasks are cancelled. Workers are asked to stop those that run.",
	},
	"Cancel %d tasks": {"Cancel one task", "Cancel %d tasks"},
	"%d tasks move. They keep their times.": {
		"One task moves. It keeps its time.", "%d tasks move. They keep their times.",
	},
	"Move %d tasks": {"Move one task", "Move %d tasks"},
	"%d tasks are deleted, with their results and logs. Nobody can see them afterwards.": {
		"One task is deleted, with its result and log. Nobody can see it afterwards.",
		"%d tasks are deleted, with their results and logs. Nobody can see them afterwards.",
	},
	"Forget %d tasks":                    {"Forget one task", "Forget %d tasks"},
	"It is done: %d tasks were changed.": {"It is done: one task was changed.", "It is done: %d tasks were changed."},
	"%d of %d tasks are done.":           {"One of %[2]d tasks is done.", "%d of %d tasks are done."},
	"%d attempts so far":                 {"1 attempt so far", "%d attempts so far"},
	"%d of its tasks have not ended":     {"One of its tasks has not ended", "%d of its tasks have not ended"},
	"Nothing needs somebody; %d attempts failed in the last hour": {
		"Nothing needs somebody; one attempt failed in the last hour",
		"Nothing needs somebody; %d attempts failed in the last hour",
	},
	"%d things need somebody": {"One thing needs somebody", "%d things need somebody"},
	"On %d living nodes.":     {"On one living node.", "On %d living nodes."},
	"%d queues of %d need somebody: %s.": {
		"One queue of %[2]d needs somebody: %[3]s.", "%d queues of %d need somebody: %s.",
	},
	"%d limits hold tasks up: %s.":    {"One limit holds tasks up: %[2]s.", "%d limits hold tasks up: %s."},
	"%d more limits have less to do.": {"One more limit has less to do.", "%d more limits have less to do."},
	"%d names are in use.":            {"One name is in use.", "%d names are in use."},
	"%d due tasks wait.":              {"One due task waits.", "%d due tasks wait."},
	"%d due tasks wait, the first of them for %s.": {
		"One due task waits, for %[2]s.", "%d due tasks wait, the first of them for %s.",
	},
	"by %d workers":                   {"by one worker", "by %d workers"},
	"%d more queues have less to do.": {"One more queue has less to do.", "%d more queues have less to do."},
	"%d partitions of %d have no leader.": {
		"One partition of %[2]d has no leader.", "%d partitions of %d have no leader.",
	},
	"%d nodes have died.": {"One node has died.", "%d nodes have died."},
	"%d nodes live, and workers by HTTP: %d.": {
		"One node lives, and workers by HTTP: %[2]d.", "%d nodes live, and workers by HTTP: %d.",
	},
	"%d nodes live.":    {"One node lives.", "%d nodes live."},
	"%d of them drain.": {"One of them drains.", "%d of them drain."},
	"%d of them are cordoned: they take no tasks.": {
		"One of them is cordoned: it takes no tasks.", "%d of them are cordoned: they take no tasks.",
	},
	"All %d partitions are led.":          {"The one partition is led.", "All %d partitions are led."},
	"%d tasks left":                       {"one task left", "%d tasks left"},
	"%d partitions":                       {"one partition", "%d partitions"},
	"%d more nodes are not shown.":        {"One more node is not shown.", "%d more nodes are not shown."},
	"Nothing comes in the next %d hours.": {"Nothing comes in the next hour.", "Nothing comes in the next %d hours."},
	"%d tasks wait for their time in it.": {"One task waits for its time in it.", "%d tasks wait for their time in it."},
	"%d errors":                           {"one error", "%d errors"},
	"%d warnings":                         {"one warning", "%d warnings"},
	"%d checks that do not know":          {"one check that does not know", "%d checks that do not know"},
	"%d notes":                            {"one note", "%d notes"},
	"%d ticks come in the fullest minute, %s.": {
		"One tick comes in the fullest minute, %[2]s.", "%d ticks come in the fullest minute, %s.",
	},
	"%d checks found nothing. Looked at: %d things.": {
		"One check found nothing. Looked at: %[2]d things.", "%d checks found nothing. Looked at: %d things.",
	},
	"%d paused themselves":          {"one paused itself", "%d paused themselves"},
	"%d have an undecided tick":     {"one has an undecided tick", "%d have an undecided tick"},
	"%d are failing":                {"one is failing", "%d are failing"},
	"%d have missed ticks":          {"one has missed ticks", "%d have missed ticks"},
	"%d more for the same reason.":  {"One more for the same reason.", "%d more for the same reason."},
	"Runs: %d tasks have not ended": {"Runs: one task has not ended", "Runs: %d tasks have not ended"},
	"%[2]s tasks match: %[3]s.":     {"%[2]s task matches: %[3]s.", "%[2]s tasks match: %[3]s."},
	"%[2]s are running":             {"%[2]s is running", "%[2]s are running"},
	"%[2]s runs match: %[3]s.":      {"%[2]s run matches: %[3]s.", "%[2]s runs match: %[3]s."},
	"Its %d revisions go with it.":  {"Its revision goes with it.", "Its %d revisions go with it."},
	"%d of %d steps are not drawn: the list has them.": {
		"One of %[2]d steps is not drawn: the list has it.", "%d of %d steps are not drawn: the list has them.",
	},
	"%d steps. The list below says the same": {
		"One step. The list below says the same", "%d steps. The list below says the same",
	},
	"%[2]s are scheduled":  {"%[2]s is scheduled", "%[2]s are scheduled"},
	"%[2]s are queued":     {"%[2]s is queued", "%[2]s are queued"},
	"%[2]s run":            {"%[2]s runs", "%[2]s run"},
	"%[2]s were cancelled": {"%[2]s was cancelled", "%[2]s were cancelled"},
	"In the last hour %[2]d of %[1]d attempts succeeded, and 99 %% of them began within %[3]s of their time.": {
		"In the last hour one attempt ended, and %[2]d succeeded. It began within %[3]s of its time.",
		"In the last hour %[2]d of %[1]d attempts succeeded, and 99 %% of them began within %[3]s of their time.",
	},
	"of %d slots":                      {"of one slot", "of %d slots"},
	"of %d partitions are led":         {"of one partition is led", "of %d partitions are led"},
	"Servers of asynq, with %d slots.": {"Servers of asynq, with one slot.", "Servers of asynq, with %d slots."},
	"%d of %d ticks have a record.":    {"One of %[2]d ticks has a record.", "%d of %d ticks have a record."},
	"Redis lost writes: %d times.":     {"Redis lost writes once.", "Redis lost writes: %d times."},
	"Paused itself: %d tasks in a row failed": {
		"Paused itself: one task failed", "Paused itself: %d tasks in a row failed",
	},
	"%d bulk actions run.":              {"One bulk action runs.", "%d bulk actions run."},
	"%d schedules":                      {"One schedule", "%d schedules"},
	"%d need somebody":                  {"one needs somebody", "%d need somebody"},
	"Failing: %d tasks in a row failed": {"Failing: the last task failed", "Failing: %d tasks in a row failed"},
	"Failing: %d tasks in a row failed. After %d it pauses itself": {
		"Failing: the last task failed. After %[2]d in a row it pauses itself",
		"Failing: %d tasks in a row failed. After %d it pauses itself",
	},
	"Has ended after %d runs": {"Has ended after one run", "Has ended after %d runs"},
	"It replaces %d tasks: they are cancelled, or asked to stop.": {
		"It replaces one task: it is cancelled, or asked to stop.",
		"It replaces %d tasks: they are cancelled, or asked to stop.",
	},
	"%d ticks that wait for their turn get no task.": {
		"One tick that waits for its turn gets no task.", "%d ticks that wait for their turn get no task.",
	},
	"Its ledger and its %d revisions go with it: nobody can audit it afterwards.": {
		"Its ledger and its revision go with it: nobody can audit it afterwards.",
		"Its ledger and its %d revisions go with it: nobody can audit it afterwards.",
	},
	"%d tasks that do not run are cancelled.": {
		"One task that does not run is cancelled.", "%d tasks that do not run are cancelled.",
	},
	"%d tasks that run are asked to stop.": {
		"One task that runs is asked to stop.", "%d tasks that run are asked to stop.",
	},
	"%d tasks go on.": {"One task goes on.", "%d tasks go on."},
	"Create %d tasks": {"Create one task", "Create %d tasks"},
	"It would create %d tasks, for ticks from %s to %s. The last one is due %s.": {
		"It would create one task, for the tick of %[2]s. It is due %[4]s.",
		"It would create %d tasks, for ticks from %s to %s. The last one is due %s.",
	},
	"%d of them are from before the schedule was created, by its first definition.": {
		"One of them is from before the schedule was created, by its first definition.",
		"%d of them are from before the schedule was created, by its first definition.",
	},
	"%d ticks have run, or will: they are left as they are.": {
		"One tick has run, or will: it is left as it is.", "%d ticks have run, or will: they are left as they are.",
	},
	"%d tasks were created at %s.": {
		"One task was created at %[2]s.", "%d tasks were created at %s.",
	},
	"%d schedules need somebody": {"One schedule needs somebody", "%d schedules need somebody"},
	"All %d ticks have exactly one record, and nothing else is recorded.": {
		"The only tick has exactly one record, and nothing else is recorded.",
		"All %d ticks have exactly one record, and nothing else is recorded.",
	},
	"%d runs":              {"1 run", "%d runs"},
	"%d ticks":             {"1 tick", "%d ticks"},
	"%d failures in a row": {"one failure", "%d failures in a row"},
	"%d failed in a row":   {"one failed", "%d failed in a row"},
	"ran %d times":         {"ran once", "ran %d times"},
}
