// Command generate writes the Go side of the Lua border to standard output, or with the argument keys the table of keys
// for docs/architecture.md.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/dts-sched/dts/lua/contract"
)

func main() {
	if err := run(os.DirFS("lua"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(files fs.FS, out io.Writer) error {
	library, err := contract.Load(files)
	if err != nil {
		return err
	}
	source, err := library.Go()
	if err != nil {
		return err
	}
	_, err = out.Write(source)
	return err
}
