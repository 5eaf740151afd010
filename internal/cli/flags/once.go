package flags

import (
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/definition"
)

// Once reads the value of a flag, which is called name: see definition.ParseOnce. nil is not given. Error: bad usage;
// the server checks modes and values.
func Once(name string, value *string) (*wire.Once, error) {
	if value == nil {
		return nil, nil
	}
	once, err := definition.ParseOnce(*value)
	if err != nil {
		return nil, command.Usagef("%s: %v", name, err)
	}
	return once, nil
}
