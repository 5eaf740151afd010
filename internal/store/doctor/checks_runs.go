package doctor

var checksOfRuns = []Check{
	{
		Name: runLost, Severity: Error, Repairs: true, OfData: true,
		Means: "A run of a workflow runs, and what became of its steps is gone or cannot be read: it waits for ever, and " +
			"a cancel does not end it.",
		Repair: "Has the run begin its steps anew. Tasks of steps that are there are not created again: how they end, or " +
			"have ended, counts. What cannot be read goes aside: see \"What is put aside\".",
	},
	{
		Name: runUnseen, Severity: Error, Repairs: true, OfData: true,
		Means:  "A run of a workflow runs, and its leader is not about to plan it: if nothing else happens, it hangs.",
		Repair: "Has the leader plan it now.",
	},
	{
		Name: runBehind, Severity: Warning, Repairs: true, OfData: true,
		Means: "The task of a step has ended or is gone, its run waits for its end, and nothing tells the leader: the run " +
			"goes on when its leader plans it again, after 10 minutes at most.",
		Repair: "Has the leader plan the run now.",
	},
	{
		Name: runAhead, Severity: Warning, OfData: true,
		Means: "The task of a step has not ended, and its run does not wait for it, as after Redis has lost writes: how " +
			"it ends may count for nothing.",
		Repair: "By hand: let it end, or cancel it (`dtsctl task cancel ID`).",
	},
	{
		Name: stepOrphan, Severity: Warning, Repairs: true, OfData: true,
		Means: "The task of a step is there, and its run is not: nothing follows its end, and it would be kept for " +
			"ever.",
		Repair: "Has one that has ended be forgotten after the retention of tasks. One that has not: let it end, or " +
			"cancel it (`dtsctl task cancel ID`).",
	},
	{
		Name: stepExpires, Severity: Warning, Repairs: true, OfData: true,
		Means: "The task of a step that has ended can be deleted before its run has ended: steps that read its output " +
			"would fail.",
		Repair: "Keeps it as long as the run.",
	},
	{
		Name: "workflow-unreadable", Severity: Error, Repairs: true, OfData: true,
		Means: "The definition of a workflow cannot be read, or is lost: its runs fail when they begin.",
		Repair: "Of one that is lost, puts aside what is left: see \"What is put aside\". Put it again " +
			"(`dtsctl flow put`). Delete one that cannot be read before (`dtsctl flow delete`)" +
			", unless a later release has written it.",
	},
	{
		Name: "workflow-drift", Severity: Warning, Repairs: true, OfData: true,
		Means: "A workflow is there, and lists do not show it.", Repair: "Lists it.",
	},
	{
		Name: workflowLeftovers, Severity: Warning, Repairs: true, OfData: true,
		Means:  "The line of a workflow has places of runs that do not exist, or the workflow itself does not exist.",
		Repair: "Deletes them.",
	},
}
