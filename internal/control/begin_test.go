package control

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/task"
)

// besideUseCases are the exported methods of Control that are no use cases, and what they are.
var besideUseCases = map[string]string{
	"Chores":         "no caller asks for it: a leader does it",
	"KeepBulks":      "no caller asks for it: a leader does it",
	"Arrive":         "lets in what a use case is about to begin",
	"CanMove":        "explains a task that a use case has returned",
	"Now":            "tells the time, and reads no data",
	"TakePage":       "bounds the memory of what a use case has returned",
	"TakeCostlyPage": "bounds how many costly use cases pages call at once",
	"WhyWaiting":     "explains a task that a use case has returned",
	"WhyHeldBack":    "explains a schedule that a use case has returned",
}

// operationsOf are the operations of methods that have another name than theirs.
var operationsOf = map[string]string{
	"Attempts": "listAttempts", "AwaitTask": "getTask", "CountTasks": "listTasks",
	"FindLimit": "getLimit", "FindSchedules": "listSchedules", "FindTasks": "getTask", "FindWorkflows": "listWorkflows",
	"LatestNamespaces": "listNamespaces",
	"Follow":           "followEvents", "FollowLogs": "readLogs", "GetQueue": "listQueues",
	"GetTaskWithAttempts": "getTask", "ListAndCountRuns": "listRuns", "ListAndCountTasks": "listTasks",
	"Ledger": "readLedger", "Logs": "readLogs", "LogStart": "readLogs", "Next": "previewSchedule", "Preview": "submitTask",
	"PreviewBackfill": "backfillSchedule", "PreviewDelete": "deleteSchedule", "PreviewEach": "submitTasks",
	"PreviewDeleteWorkflow": "deleteWorkflow",
	"PreviewRollback":       "rollbackSchedule", "PreviewTrigger": "triggerSchedule",
	"ReadHour": "readStats", "RecentForecast": "forecast",
	"Revisions": "listRevisions", "SwitchQueue": "monitor", "Submit": "submitTask", "SubmitEach": "submitTasks",
	"LastEnds": "getTask", "TaskState": "getTask",
}

// Each use case is called for nobody: what does not begin with begin answers otherwise, or panics.
func TestControl_EveryUseCaseBeginsAtTheGate(t *testing.T) {
	t.Parallel()
	begun := map[string]bool{}
	c := newWorld(t).Control
	all := reflect.TypeOf(c)
	for i := range all.NumMethod() {
		m := all.Method(i)
		if besideUseCases[m.Name] != "" {
			continue
		}
		operation := refusedAs(t, c, m)
		if want := cmp.Or(operationsOf[m.Name], strings.ToLower(m.Name[:1])+m.Name[1:]); operation != want {
			t.Errorf("%s begins as %q, want %q", m.Name, operation, want)
		}
		begun[operation] = true
	}
	_, err := c.Examine(t.Context(), Caller{}, DoctorRequest{Repair: true}) // Examine begins as one of two
	begun[refusal(err)] = true
	for _, o := range Operations() {
		if o.Role != Anyone && !begun[o.Name] {
			t.Errorf("no use case begins as %q", o.Name)
		}
	}
}

// refusedAs calls a method for nobody, and returns the operation as which it was refused; "" if it was not.
func refusedAs(t *testing.T, c *Control, m reflect.Method) (operation string) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			operation = ""
		}
	}()
	args := []reflect.Value{reflect.ValueOf(c)}
	for i := 1; i < m.Type.NumIn(); i++ {
		args = append(args, reflect.Zero(m.Type.In(i)))
	}
	args[1] = reflect.ValueOf(t.Context())
	results := m.Func.Call(args)
	err, _ := results[len(results)-1].Interface().(error)
	return refusal(err)
}

// refusal returns the operation that begin has refused to nobody; "" if that is not what an error says.
func refusal(err error) string {
	if err == nil || !strings.Contains(err.Error(), "nobody asks") {
		return ""
	}
	_, rest, _ := strings.Cut(err.Error(), `"`)
	operation, _, _ := strings.Cut(rest, `"`)
	return operation
}

func TestBegin_RefusesWhatIsNotInTheTable(t *testing.T) {
	t.Parallel()
	_, err := (&Control{}).begin(t.Context(), me, "bake")
	if task.CodeOf(err) != task.CodeInternal {
		t.Errorf("begin says %v, want %s", err, task.CodeInternal)
	}
}

func TestOperations_EachRowIsWhole(t *testing.T) {
	t.Parallel()
	roles := []Role{Anyone, Viewer, Operator, Editor, Admin, Worker}
	for _, o := range Operations() {
		if !slices.Contains(roles, o.Role) || o.About == "" {
			t.Errorf("%+v has no role, or is about nothing", o)
		}
		if o.Changes == (o.Role == Viewer || o.Role == Anyone) && o.Name != "examine" {
			t.Errorf("%+v: viewers change nothing, and others do", o)
		}
		if o.MakesWork && !o.Changes {
			t.Errorf("%+v makes work and changes nothing", o)
		}
	}
}
