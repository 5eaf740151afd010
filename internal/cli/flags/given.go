package flags

import (
	"errors"

	"github.com/spf13/pflag"
)

// RefuseEmpty makes flags refuse an empty value, which a script gives whose variable is not set. Else it would mean the
// same as no flag: everything. The flags must exist.
func RefuseEmpty(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		flag.Value = notEmpty{flag.Value}
		flag.DefValue = "" // the help shows no [] of a list
	}
}

type notEmpty struct{ pflag.Value }

func (n notEmpty) Set(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	return n.Value.Set(text)
}
