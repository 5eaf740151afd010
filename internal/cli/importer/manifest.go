package importer

import (
	"github.com/dts-sched/dts/internal/manifest"
)

// printManifest prints what would be put, as "dtsctl apply" reads it.
func (opts *crontabOptions) printManifest(lines []imported) error {
	d := manifest.Document{Namespace: opts.Server.NamespaceName(), Schedules: []manifest.Schedule{}}
	for _, line := range lines {
		if line.outcome != refused {
			d.Schedules = append(d.Schedules, manifest.Schedule{ID: line.id, ScheduleDefinition: line.definition})
		}
	}
	tellRefusals(opts.Printer, lines)
	raw, err := d.JSON()
	if err != nil {
		return err
	}
	if err := opts.Printer.ShowFile(raw); err != nil {
		return err
	}
	return anyRefused(lines)
}
