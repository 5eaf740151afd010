package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/diff"
	"github.com/dts-sched/dts/internal/cli/flags"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/manifest"
)

// edit is one change of a schedule in an editor.
type edit struct {
	client   *rest.Client
	printer  *printer.Printer
	stdin    io.Reader
	yes      bool // do not ask
	before   rest.Answer[wire.Schedule]
	original string // the file as it is at first
	path     string // of the file
	written  bool   // the file has something that is worth to be kept
}

// run opens the editor until the file is valid, and then puts it in force. A file that is left as it is changes
// nothing. Errors: those of the editor, of the file and of the server; ErrReported.
func (e *edit) run(ctx context.Context, editor editor) error {
	notes, shown := e.greeting(), e.original
	var faults manifest.Faults // of what is shown
	for {
		if err := os.WriteFile(e.path, []byte(notes+shown), 0o600); err != nil {
			return err
		}
		failed := editor(ctx, e.path)
		raw, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		text := withoutNotes(string(raw))
		same := text == e.original || isEmpty(text)
		e.written = !same
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case failed != nil:
			return failed
		case same:
			e.printer.Notef("Nothing was changed.")
			return nil
		case text == shown: // with the errors above it
			for _, line := range faultLines(faults) {
				e.printer.Errorf("%s", line)
			}
			e.printer.Errorf("the file is still invalid, and nothing was changed")
			return command.ErrReported
		}
		if faults, err = e.apply(ctx, text); len(faults) == 0 {
			return err
		}
		notes, shown = faultNotes(faults), text
	}
}

func (e *edit) greeting() string {
	return notesOf([]string{
		fmt.Sprintf("Schedule %s, revision %d.", e.before.Value.ID, e.before.Value.Revision),
		"Leave this file as it is, or empty it, to change nothing.",
	})
}

// apply puts a text in force, after the server has checked it and somebody has agreed. The faults are what is wrong
// with the text: nothing was done then.
func (e *edit) apply(ctx context.Context, text string) (manifest.Faults, error) {
	entry, faults := entryIn(text, e.before.Value)
	if len(faults) > 0 {
		return faults, nil
	}
	definition, err := e.definition(entry)
	if err != nil {
		return nil, err
	}
	preview, change, err := e.put(ctx, definition, true)
	if refusal := rest.RefusalIn(err); refusal != nil && refusal.Code == wire.Invalid {
		return entry.Faults(refusal.Invalid()), nil
	}
	if err != nil {
		return nil, err
	}
	if change == putUnchanged {
		e.printer.Notef("Nothing was changed.")
		return nil, nil
	}
	return nil, e.agreeAndPut(ctx, definition, preview)
}

// definition is what an entry asks for. It names the pause only to change it: somebody may have changed it meanwhile.
func (e *edit) definition(entry *manifest.Entry) (wire.ScheduleDefinition, error) {
	var d wire.ScheduleDefinition
	if err := json.Unmarshal(entry.Body, &d); err != nil {
		return d, fmt.Errorf("reading the file: %w", err)
	}
	if paused := wire.Value(d.Paused); paused != e.before.Value.Paused {
		d.Paused = &paused
	} else {
		d.Paused = nil
	}
	return d, nil
}

// agreeAndPut shows what changes, asks, and puts a definition in force. preview is the schedule as it would be.
func (e *edit) agreeAndPut(ctx context.Context, d wire.ScheduleDefinition, preview rest.Answer[wire.Schedule]) error {
	before := &e.before
	if !e.yes {
		before = nil // what changes is shown once
		what := "change schedule " + printer.Flat(e.before.Value.ID)
		if err := command.Agree(e.printer, e.stdin, what, func() error { return e.showChanges(preview) }); err != nil {
			return err
		}
	}
	after, change, err := e.put(ctx, d, false)
	if err != nil {
		return err
	}
	e.written = false
	e.printer.Warn(after.Value.Warnings)
	return showPut(ctx, e.client, e.printer, change, before, after)
}

func (e *edit) showChanges(after rest.Answer[wire.Schedule]) error {
	changes, err := manifest.Changes(e.before.Raw, after.Raw)
	if err != nil {
		return err
	}
	if was, is := e.before.Value.Paused, after.Value.Paused; was != is {
		paused := manifest.Change{Name: "paused", Before: strconv.FormatBool(was), After: strconv.FormatBool(is)}
		changes = append(changes, paused)
	}
	return diff.Print(e.printer, changes)
}

// put puts a definition over the revision that was read, or previews that. change says what it did to the schedule.
func (e *edit) put(
	ctx context.Context, d wire.ScheduleDefinition, preview bool,
) (after rest.Answer[wire.Schedule], change string, _ error) {
	body, err := rest.Body(d)
	if err != nil {
		return after, "", err
	}
	read := e.before.Value
	params := &client.PutScheduleParams{Namespace: &read.Namespace, IfMatch: flags.RevisionTag(&read.Revision)}
	if preview {
		params.DryRun = &preview
	}
	response, err := e.client.PutScheduleWithBodyWithResponse(ctx, read.ID, params, rest.JSONType, body)
	if after, err = rest.Read[wire.Schedule](response, err); err != nil {
		return after, "", err
	}
	return after, response.HTTPResponse.Header.Get("Dts-Change"), nil
}
