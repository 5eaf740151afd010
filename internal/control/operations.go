package control

import (
	"maps"
	"slices"
)

// Operation is what a caller can ask for: one use case, as the table of operations describes it.
type Operation struct {
	Name      string // as in the API's document
	Role      Role
	About     Subject
	Changes   bool // it changes something
	MakesWork bool // it creates tasks, now or by and by: admission, memory and queues with a capacity may refuse it

	each bool // it is about several things, each of which is refused or done by itself
}

// Role is what a caller must be for an operation. Until there is a login, every caller is everything.
type Role string

// The roles. Each one includes those before it, but for Worker, which is apart.
const (
	Anyone   Role = "anyone"   // without a login
	Viewer   Role = "viewer"   // looks
	Operator Role = "operator" // submits, and steers what exists
	Editor   Role = "editor"   // puts and deletes what lasts
	Admin    Role = "admin"    // repairs, and changes the installation
	Worker   Role = "worker"   // runs attempts
)

// Subject is what an operation is about.
type Subject string

// The subjects.
const (
	AboutTask         Subject = "task"
	AboutSchedule     Subject = "schedule"
	AboutWorkflow     Subject = "workflow"
	AboutQueue        Subject = "queue"
	AboutLimit        Subject = "limit"
	AboutLock         Subject = "lock"
	AboutNode         Subject = "node"
	AboutNamespace    Subject = "namespace"
	AboutInstallation Subject = "installation"
)

// operations is the table of all operations, by name. A use case names its own one when it begins.
var operations = map[string]Operation{
	"submitTask":            {Role: Operator, About: AboutTask, Changes: true, MakesWork: true, each: true},
	"submitTasks":           {Role: Operator, About: AboutTask, Changes: true, MakesWork: true, each: true},
	"listTasks":             {Role: Viewer, About: AboutTask},
	"getTask":               {Role: Viewer, About: AboutTask},
	"changeTask":            {Role: Operator, About: AboutTask, Changes: true},
	"cancelTask":            {Role: Operator, About: AboutTask, Changes: true},
	"moveTask":              {Role: Operator, About: AboutTask, Changes: true},
	"retryTask":             {Role: Operator, About: AboutTask, Changes: true, MakesWork: true},
	"forgetTask":            {Role: Operator, About: AboutTask, Changes: true},
	"submitRun":             {Role: Operator, About: AboutTask, Changes: true, MakesWork: true, each: true},
	"listRuns":              {Role: Viewer, About: AboutTask},
	"getRun":                {Role: Viewer, About: AboutTask},
	"runGraph":              {Role: Viewer, About: AboutTask},
	"auditRun":              {Role: Viewer, About: AboutTask},
	"cancelRun":             {Role: Operator, About: AboutTask, Changes: true},
	"pauseRun":              {Role: Operator, About: AboutTask, Changes: true},
	"resumeRun":             {Role: Operator, About: AboutTask, Changes: true},
	"signalRun":             {Role: Operator, About: AboutTask, Changes: true},
	"approveStep":           {Role: Operator, About: AboutTask, Changes: true},
	"rejectStep":            {Role: Operator, About: AboutTask, Changes: true},
	"rerunRun":              {Role: Operator, About: AboutTask, Changes: true, MakesWork: true},
	"previewBulk":           {Role: Viewer, About: AboutTask},
	"startBulk":             {Role: Operator, About: AboutTask, Changes: true, MakesWork: true},
	"stopBulk":              {Role: Operator, About: AboutTask, Changes: true},
	"getBulk":               {Role: Viewer, About: AboutTask},
	"listBulks":             {Role: Viewer, About: AboutTask},
	"whyTask":               {Role: Viewer, About: AboutTask},
	"listAttempts":          {Role: Viewer, About: AboutTask},
	"readLogs":              {Role: Viewer, About: AboutTask},
	"followEvents":          {Role: Viewer, About: AboutTask},
	"reportProgress":        {Role: Worker, About: AboutTask, Changes: true},
	"reportAttempt":         {Role: Worker, About: AboutTask, Changes: true},
	"finishAttempt":         {Role: Worker, About: AboutTask, Changes: true},
	"takeAttempts":          {Role: Worker, About: AboutNode, Changes: true},
	"extendAttempts":        {Role: Worker, About: AboutNode, Changes: true},
	"leaveWorker":           {Role: Worker, About: AboutNode, Changes: true},
	"listSchedules":         {Role: Viewer, About: AboutSchedule},
	"putSchedule":           {Role: Editor, About: AboutSchedule, Changes: true, MakesWork: true},
	"getSchedule":           {Role: Viewer, About: AboutSchedule},
	"whySchedule":           {Role: Viewer, About: AboutSchedule},
	"deleteSchedule":        {Role: Editor, About: AboutSchedule, Changes: true},
	"pauseSchedule":         {Role: Operator, About: AboutSchedule, Changes: true},
	"resumeSchedule":        {Role: Operator, About: AboutSchedule, Changes: true},
	"triggerSchedule":       {Role: Operator, About: AboutSchedule, Changes: true, MakesWork: true},
	"backfillSchedule":      {Role: Operator, About: AboutSchedule, Changes: true, MakesWork: true},
	"previewSchedule":       {Role: Viewer, About: AboutSchedule},
	"readScheduleLogs":      {Role: Viewer, About: AboutSchedule},
	"readLedger":            {Role: Viewer, About: AboutSchedule},
	"auditSchedule":         {Role: Viewer, About: AboutSchedule},
	"listRevisions":         {Role: Viewer, About: AboutSchedule},
	"rollbackSchedule":      {Role: Editor, About: AboutSchedule, Changes: true, MakesWork: true},
	"forecast":              {Role: Viewer, About: AboutSchedule},
	"nextTicks":             {Role: Viewer, About: AboutSchedule},
	"listWorkflows":         {Role: Viewer, About: AboutWorkflow},
	"putWorkflow":           {Role: Editor, About: AboutWorkflow, Changes: true, MakesWork: true},
	"getWorkflow":           {Role: Viewer, About: AboutWorkflow},
	"deleteWorkflow":        {Role: Editor, About: AboutWorkflow, Changes: true},
	"pauseWorkflow":         {Role: Operator, About: AboutWorkflow, Changes: true},
	"resumeWorkflow":        {Role: Operator, About: AboutWorkflow, Changes: true},
	"listWorkflowRevisions": {Role: Viewer, About: AboutWorkflow},
	"rollbackWorkflow":      {Role: Editor, About: AboutWorkflow, Changes: true, MakesWork: true},
	"listLocks":             {Role: Viewer, About: AboutLock},
	"getLock":               {Role: Viewer, About: AboutLock},
	"acquireLock":           {Role: Operator, About: AboutLock, Changes: true},
	"renewLock":             {Role: Operator, About: AboutLock, Changes: true},
	"releaseLock":           {Role: Operator, About: AboutLock, Changes: true},
	"listNamespaces":        {Role: Viewer, About: AboutNamespace},
	"listFailures":          {Role: Viewer, About: AboutTask},
	"readStats":             {Role: Viewer, About: AboutQueue},
	"listNodes":             {Role: Viewer, About: AboutNode},
	"getNode":               {Role: Viewer, About: AboutNode},
	"cordonNode":            {Role: Operator, About: AboutNode, Changes: true},
	"uncordonNode":          {Role: Operator, About: AboutNode, Changes: true},
	"listQueues":            {Role: Viewer, About: AboutQueue},
	"whyQueue":              {Role: Viewer, About: AboutQueue},
	"pauseQueue":            {Role: Operator, About: AboutQueue, Changes: true},
	"resumeQueue":           {Role: Operator, About: AboutQueue, Changes: true},
	"setQueueCapacity":      {Role: Operator, About: AboutQueue, Changes: true},
	"limitQueue":            {Role: Operator, About: AboutQueue, Changes: true}, // the old name of setQueueCapacity
	"listLimits":            {Role: Viewer, About: AboutLimit},
	"getLimit":              {Role: Viewer, About: AboutLimit},
	"setLimit":              {Role: Operator, About: AboutLimit, Changes: true},
	"pauseLimit":            {Role: Operator, About: AboutLimit, Changes: true},
	"resumeLimit":           {Role: Operator, About: AboutLimit, Changes: true},
	"deleteLimit":           {Role: Operator, About: AboutLimit, Changes: true},
	"getStatus":             {Role: Viewer, About: AboutInstallation},
	"getMemory":             {Role: Viewer, About: AboutInstallation},
	"examine":               {Role: Admin, About: AboutInstallation},
	"repair":                {Role: Admin, About: AboutInstallation, Changes: true},
	"monitor":               {Role: Admin, About: AboutQueue, Changes: true},
	"healthz":               {Role: Anyone, About: AboutInstallation},
	"readyz":                {Role: Anyone, About: AboutInstallation},
	"metrics":               {Role: Anyone, About: AboutInstallation},
	"openapi":               {Role: Anyone, About: AboutInstallation},
	"docs":                  {Role: Anyone, About: AboutInstallation},
}

// Operations returns the table of operations, by name.
func Operations() []Operation {
	all := make([]Operation, 0, len(operations))
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		o, _ := OperationNamed(name)
		all = append(all, o)
	}
	return all
}

// OperationNamed returns the row of the table with that name; ok is false if there is none.
func OperationNamed(name string) (_ Operation, ok bool) {
	o, ok := operations[name]
	o.Name = name
	return o, ok
}
