package importer

import (
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/printer"
)

// manifest is what "dtsctl apply" reads.
type manifest struct {
	Namespace string  `json:"namespace,omitempty"`
	Schedules []named `json:"schedules"`
}

// named is a schedule of a manifest.
type named struct {
	ID string `json:"id"`
	wire.ScheduleDefinition
}

// printManifest prints what would be put.
func (opts *crontabOptions) printManifest(lines []imported) error {
	m := manifest{Namespace: opts.Server.NamespaceName(), Schedules: []named{}}
	for _, line := range lines {
		if line.outcome != refused {
			m.Schedules = append(m.Schedules, named{line.id, line.definition})
		}
	}
	raw, err := rest.Encode(m)
	if err != nil {
		return err
	}
	tellRefusals(opts.Printer, lines)
	p := *opts.Printer
	if p.IsTable() {
		p.Format = printer.YAML
	}
	if err := p.Show(raw, nil); err != nil {
		return err
	}
	return anyRefused(lines)
}
