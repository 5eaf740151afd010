package dts

import (
	"cmp"
	"iter"
	"time"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/clock"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
)

// A client checks before it sends what has another meaning in the path of a URL, such as the id "..", and what JSON does not
// carry as it is, such as text that is no UTF-8. A client of Dial checks its submissions, too, so that its errors are those
// of Open. The checks are those of the use cases.

// checkNamespace checks the namespace of the client. Error: CodeInvalid.
func (c *Client) checkNamespace() error {
	return errorOfUseCase(task.ValidateName("namespace", c.caller().Namespace))
}

// checkTask checks the id of a task. Error: CodeInvalid.
func (c *Client) checkTask(id string) error {
	return errorOfUseCase(task.ValidateRef(c.caller().Ref(id)))
}

// checkSchedule checks the id of a schedule. Error: CodeInvalid.
func (c *Client) checkSchedule(id string) error {
	if err := c.checkNamespace(); err != nil {
		return err
	}
	return errorOfUseCase(schedule.ValidateID(id))
}

// checkKey checks the key of a call that may be repeated. Error: CodeInvalid.
func checkKey(key string) error { return errorOfUseCase(task.ValidateName("key", key)) }

// checkLock checks the name of a lock, and its note. Error: CodeInvalid.
func (c *Client) checkLock(name, note string) error {
	if err := c.checkNamespace(); err != nil {
		return err
	}
	if err := task.ValidateName("name", name); err != nil {
		return errorOfUseCase(err)
	}
	return errorOfUseCase(task.ValidateText("note", note, control.LockNoteLimit))
}

// checkTimes checks that JSON can carry times, by the names of their fields.
func checkTimes(times map[string]time.Time) error {
	for field, t := range times {
		if year := t.UTC().Year(); year < 0 || year > 9999 {
			return errorOfUseCase(task.Invalid(field, "the year %d must be 0 to 9999", year))
		}
	}
	return nil
}

// check makes the checks of the use case before a submission is sent. Error: a *task.Error.
func (c *Client) check(s wire.Submission) error {
	d, err := definition.Task(s)
	if err != nil {
		return err
	}
	d.Ref = c.caller().Ref(cmp.Or(d.ID, "new")) // DTS will make an id
	if d.Once != nil {
		d.Ref = d.Keyed(d.Once.Key)
	}
	if err := d.Normalize().Validate(clock.Now()); err != nil {
		return err
	}
	return checkRun(d)
}

// failing returns a sequence of an error.
func failing[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
