package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/task"
)

// Descriptor is all that DTS knows of one task type.
type Descriptor struct {
	Type string // as tasks name it

	// Timeout is the default timeout of an attempt: more than 0, and at most task.DefaultTimeout (see task.Type).
	Timeout time.Duration

	// CheckPayload says what is invalid about a payload, before any attempt is made. It runs on every node, with or
	// without an executor. Errors: *InvalidPayloadError, and the cause of ctx. nil accepts every payload.
	CheckPayload func(ctx context.Context, payload json.RawMessage) error

	// PausesKey reports whether a valid payload asks that the limits of the task's keys are paused. nil: none does.
	PausesKey func(payload json.RawMessage) bool

	// OptIn, if set, means that a node runs the type only if it is told to by the setting enable-<type>. It is the help
	// text of that setting. Types without it run on every worker.
	OptIn string

	// Settings are the executor's own settings; nil if there are none. Their names begin with the type.
	Settings config.Section

	// New makes the executor. The settings are loaded by then. nil: the descriptor is for those who only check payloads.
	New func(Options) (Executor, error)

	enabled bool           // the value of enable-<type>
	own     *pflag.FlagSet // Settings as flags
}

// Options is what every executor is told about its node.
type Options struct {
	Version string       // of this program; "" if it is not known
	Redis   string       // URL of the Redis of this installation, as redisx.Options has it
	Prefix  string       // of the keys of this installation; "" means "dts"
	Log     *slog.Logger // takes warnings about the node; nil discards them

	// Own returns where this installation itself listens. Executors that call addresses of a payload do not call these
	// unless the settings of the node say so. nil: nowhere.
	Own func() []Endpoint
}

// Endpoint is where a part of this installation listens.
type Endpoint struct {
	Part    string // as in "the API of this node"
	Address string // HOST:PORT; without a host, or with 0.0.0.0 or ::, every address of the part's machine
	Machine bool   // if that is an address of this machine, the part may listen at all others of it as well
	Setting string // that opens it to tasks besides http-allow; "" if there is none
	Allowed bool   // tasks may call it, but no target may send them there
	// Away says that the part is in another network: on another machine, or in another container. Addresses that are
	// also those of this machine, as 127.0.0.1 and that of docker0, do not lead to it from here.
	Away bool
	Also []netip.Addr // further addresses that lead to the part, at the port of Address
}

// RedisEndpoints are the endpoints of a Redis with these servers, which may listen at more addresses than those at
// which it is called.
func RedisEndpoints(part string, servers []string) []Endpoint {
	all := make([]Endpoint, len(servers))
	for i, server := range servers {
		all[i] = Endpoint{Part: part, Address: server, Machine: true}
	}
	return all
}

// optInFlag is the name of the setting that enables the type.
func (d *Descriptor) optInFlag() string { return "enable-" + d.Type }

// runs says whether this node runs the type.
func (d *Descriptor) runs() bool { return d.OptIn == "" || d.enabled }

// Runs reports whether this node runs a type.
func (t Table) Runs(kind string) bool {
	return slices.ContainsFunc(t, func(d *Descriptor) bool { return d.Type == kind && d.runs() })
}

// Table lists the known task types, with the settings that their executors have on this node. It is a config.Section:
// the sum of the sections of its descriptors.
type Table []*Descriptor

// Declare adds the settings of all executors to flags.
func (t Table) Declare(flags *pflag.FlagSet) {
	for _, d := range t {
		if d.OptIn != "" {
			flags.BoolVar(&d.enabled, d.optInFlag(), d.enabled, d.OptIn)
		}
		if d.Settings != nil {
			d.own = pflag.NewFlagSet(d.Type, pflag.ContinueOnError)
			d.Settings.Declare(d.own)
			flags.AddFlagSet(d.own)
		}
	}
}

// warnOfIdle warns of settings of a type that this node does not run. Nodes may share a file of settings, so it is no error.
func (d *Descriptor) warnOfIdle(log *slog.Logger) {
	if d.own == nil || log == nil {
		return
	}
	d.own.VisitAll(func(f *pflag.Flag) {
		if f.Value.String() != f.DefValue {
			log.Warn("a setting has no effect: this node does not run its type of task",
				"setting", f.Name, "remedy", "set "+d.optInFlag()+", or leave "+f.Name+" out")
		}
	})
}

// Validate checks the settings of all executors.
func (t Table) Validate() error {
	var failures []error
	for _, d := range t {
		if d.Settings != nil {
			failures = append(failures, d.Settings.Validate())
		}
	}
	return errors.Join(failures...)
}

// EnableAll enables every type. Before Declare, it changes the defaults of the settings.
func (t Table) EnableAll() {
	for _, d := range t {
		d.enabled = true
	}
}

// DisableUnless disables the types that a node runs only if it is told to, except those for whose setting keep returns
// true.
func (t Table) DisableUnless(keep func(setting string) bool) {
	for _, d := range t {
		d.enabled = d.enabled && keep(d.optInFlag())
	}
}

// Types describes the types to those who handle tasks without running them. Types that this node does not run are
// among them.
func (t Table) Types() task.Types {
	types := make(task.Types, len(t))
	for _, d := range t {
		t := task.Type{Timeout: d.Timeout, PausesKey: d.PausesKey}
		if d.CheckPayload != nil {
			t.CheckPayload = refusing(d.CheckPayload)
		}
		if d.OptIn != "" {
			t.Setting = d.optInFlag()
		}
		types[d.Type] = t
	}
	return types
}

// refusing makes the check of a submission from the check of a payload: the same error, with the code that submitters
// get.
func refusing(check func(context.Context, json.RawMessage) error) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, payload json.RawMessage) error {
		err := check(ctx, payload)
		var invalid *InvalidPayloadError
		if errors.As(err, &invalid) {
			return task.Invalid(invalid.Field, "%s", invalid.Message)
		}
		return err
	}
}

// Build makes the executors of the types that this node runs. Close them at the end. If one cannot be made, none is
// left.
func (t Table) Build(o Options) (Registry, error) {
	built := Registry{}
	for _, d := range t {
		if !d.runs() {
			d.warnOfIdle(o.Log)
			continue
		}
		e, err := d.New(o)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("executor %s: %w", d.Type, err), built.Close())
		}
		built[d.Type] = e
	}
	return built, nil
}
