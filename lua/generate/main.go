// Command generate writes a file that is generated from the headers of the scripts and the table of keys to standard
// output: lua/border.gen.go for the argument go, docs/keys.md for the argument keys.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/dts-sched/dts/lua/contract"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate go|keys")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.DirFS("lua"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what string, scripts fs.FS, out io.Writer) error {
	switch what {
	case "go":
		library, err := contract.Load(scripts)
		if err != nil {
			return err
		}
		source, err := library.Go()
		if err != nil {
			return err
		}
		_, err = out.Write(source)
		return err
	case "keys":
		_, err := io.WriteString(out, contract.Page())
		return err
	}
	return fmt.Errorf("%q must be go or keys", what)
}
