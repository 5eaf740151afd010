package config

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestFlagError_SaysWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--listn=x":                     "unknown flag: --listn; did you mean --listen?",
		"--nonsense":                    "unknown flag: --nonsense",
		"-x":                            "unknown shorthand flag: 'x' in -x",
		"--wait=5":                      `--wait: "5" must be a duration with its unit, as in 30s, 1h30m or 48h`,
		"--waits=1s,5":                  `--waits: "1s,5" must be a duration with its unit, as in 30s, 1h30m or 48h`,
		"--number=x":                    `--number: "x" must be a whole number`,
		"--number=99999999999999999999": `--number: "99999999999999999999" must be a whole number`,
		"--on=perhaps":                  `--on: "perhaps" must be true or false`,
		"--pairs=x":                     `--pairs: "x" is wrong: x must be formatted as key=value`,
		"--listen":                      "flag needs an argument: --listen",
	} {
		flags := pflag.NewFlagSet("dts", pflag.ContinueOnError)
		flags.String("listen", "", "")
		flags.Duration("wait", 0, "")
		flags.DurationSlice("waits", nil, "")
		flags.Int("number", 0, "")
		flags.Bool("on", false, "")
		flags.StringToInt("pairs", nil, "")
		if err := FlagError(flags, flags.Parse([]string{arg})); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", arg, err, want)
		}
	}
}
