package cli_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/api"
	"github.com/dts-sched/dts/internal/cli"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/testkit"
)

var shellWord = regexp.MustCompile(`'[^']*'|[^\s']+`)

// The page of the API shows these commands.
func TestDocument_ShowsTheCommandOfAnOperation(t *testing.T) {
	doc, err := api.Document()
	testkit.Must(t, err)
	apart := []string{"getLock", "healthz", "readyz", "openapi"} // only programs ask for these
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			line, shown := op.Extensions["x-dtsctl"].(string)
			operation, _ := control.OperationNamed(op.OperationID)
			if has := operation.Role != control.Worker && !slices.Contains(apart, op.OperationID); has != shown {
				t.Errorf("%s %s: x-dtsctl is %q", method, path, line)
			}
			if shown {
				checkCommand(t, line, op.OperationID)
			}
		}
	}
}

// checkCommand checks that dtsctl takes a line, and asks for the operation then.
func checkCommand(t *testing.T, line, operation string) {
	t.Helper()
	words := shellWord.FindAllString(line, -1)
	for i, word := range words {
		words[i] = strings.Trim(word, "'")
	}
	root := cli.NewRootCommand(command.NewFactory(nil, printer.New(printer.Options{}), &server.Config{}))
	cmd, args, err := root.Find(words[1:])
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if asks := command.AsksOf(cmd.Annotations); err != nil || words[0] != "dtsctl" || !slices.Contains(asks, operation) {
		t.Errorf("%s, an example of %s: %v; the command asks for %v", line, operation, err, asks)
	}
}
