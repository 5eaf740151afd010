package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"

	"github.com/dts-sched/dts/internal/cli/printer"
)

// CanAsk reports whether somebody on a terminal can be asked.
func CanAsk(p *printer.Printer, in io.Reader) bool {
	file, isFile := in.(*os.File)
	return p.ErrIsTerminal && isFile && isatty.IsTerminal(file.Fd())
}

// Agree asks somebody on a terminal whether to go on with what, which show prints first. Errors: a usage error if
// nobody can be asked; ErrReported if nobody agrees.
func Agree(p *printer.Printer, in io.Reader, what string, show func() error) error {
	if !CanAsk(p, in) {
		return Usagef("this would %s: say --yes if that is meant, or --dry-run to see which", what)
	}
	if err := show(); err != nil {
		return err
	}
	_, _ = fmt.Fprint(p.Err, "Go on? [y/N] ")
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		p.Notef("Nothing was done.")
		return ErrReported
	}
	return nil
}
