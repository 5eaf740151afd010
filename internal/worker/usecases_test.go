package worker

import (
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/task"
)

// caller asks for use cases in the namespace of the tests.
var caller = control.Caller{Namespace: task.DefaultNamespace}

// useCases are what people and programs can ask for.
func (w *world) useCases() *control.Control { return control.New(control.Options{Store: w.store}) }
