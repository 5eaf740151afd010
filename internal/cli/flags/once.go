package flags

import (
	"strings"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
)

// Once reads the value of a flag, which is called name: MODE:KEY, and SETTING=VALUE behind commas. nil is not given.
// Error: bad usage; the server checks modes and values.
func Once(name string, value *string) (*wire.Once, error) {
	if value == nil {
		return nil, nil
	}
	parts := strings.Split(*value, ",")
	mode, key, ok := strings.Cut(parts[0], ":")
	if !ok || mode == "" || key == "" {
		return nil, command.Usagef("%s: %q must be MODE:KEY, as singleton:tenant-7 or debounce:reindex,wait=5s", name, *value)
	}
	once := &wire.Once{Mode: wire.OnceMode(mode), Key: key}
	for _, part := range parts[1:] {
		setting, text, _ := strings.Cut(part, "=")
		switch setting {
		case "wait":
			once.Wait = &text
		case "max":
			once.Max = &text
		case "every":
			once.Every = &text
		case "excess":
			once.Excess = wire.Given(wire.Excess(text))
		default:
			return nil, command.Usagef("%s: %q is no setting: use wait=5s, max=1m, every=1m or excess=delay", name, part)
		}
	}
	return once, nil
}
