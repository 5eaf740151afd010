package flow

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/workflow/graph"
)

type graphOptions struct {
	options
	Stdin io.Reader

	File  string
	DOT   bool
	ASCII bool
}

func newGraphCommand(f *command.Factory) *cobra.Command {
	opts := &graphOptions{options: newOptions(f), Stdin: f.In}
	cmd := &cobra.Command{
		Use: "graph [RUN]", Short: "Draw the steps of a run, or of a file",
		Annotations: command.Asks("runGraph"),
		Long: `graph draws which steps need which, from above to below. The sign of a step says where it is in the run:

  ○ blocked     ✓ succeeded    ⊘ cancelled          » skipped
  ▸ active      ✗ failed       ⊗ upstream_failed    ● in a file
  ◷ waiting

With --file, it draws a file, and asks no server.`,
		Example: `  dtsctl flow graph etl-1
  dtsctl flow graph -f etl.yaml
  dtsctl flow graph etl-1 --dot | dot -Tsvg > etl.svg`,
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.File == "" {
				return command.ExactArgs("RUN")(cmd, args)
			}
			return command.ExactArgs()(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.File != "" {
				return graphOfFile(opts)
			}
			opts.Run = args[0]
			return graphOfRun(cmd.Context(), opts)
		},
	}
	set := cmd.Flags()
	set.StringVarP(&opts.File, "file", "f", "", "draw the workflow that this file defines; - is standard input")
	command.CompleteFiles(cmd, "file")
	set.BoolVar(&opts.DOT, "dot", false, "write it for Graphviz")
	set.BoolVar(&opts.ASCII, "ascii", false, "draw with characters of ASCII only")
	return cmd
}

func graphOfFile(opts *graphOptions) error {
	definition, err := readFile(opts.Stdin, opts.File)
	if err != nil {
		return err
	}
	sections, err := definition.sections()
	if err != nil {
		return err
	}
	raw, err := wire.Encode(placesOf(sections))
	if err != nil {
		return err
	}
	return opts.Printer.Show(raw, func() error { return opts.draw(opts.File, sections) })
}

func graphOfRun(ctx context.Context, opts *graphOptions) error {
	c, err := opts.Client()
	if err != nil {
		return err
	}
	params := &client.RunGraphParams{Namespace: c.Namespace}
	answer, err := rest.Read[wire.RunGraph](c.RunGraphWithResponse(ctx, opts.Run, params))
	if err != nil {
		return err
	}
	sections := graph.Sections(answer.Value.Steps, func(s wire.GraphStep) (string, graph.Step) {
		return string(s.Section), graph.Step{ID: s.ID, Needs: s.Needs, State: string(s.State)}
	})
	return opts.Printer.Show(answer.Raw, func() error { return opts.draw(opts.Run, sections) })
}

// draw prints the graph.
func (opts *graphOptions) draw(name string, sections []graph.Section) error {
	p := opts.Printer
	if opts.DOT {
		return p.Printf("%s", graph.DOT(name, sections))
	}
	return p.Printf("%s", printer.Scrub(graph.Text(sections, graph.Options{Width: p.Width, ASCII: opts.ASCII})))
}

// placesOf is the graph of a file as the API has that of a run: with places, and without states.
func placesOf(sections []graph.Section) any {
	type step struct {
		ID      string   `json:"id"`
		Section string   `json:"section"`
		Needs   []string `json:"needs,omitempty"`
		Layer   int      `json:"layer"`
		Row     int      `json:"row"`
	}
	steps := []step{}
	for _, section := range sections {
		for i, place := range graph.Layout(section.Steps) {
			s := section.Steps[i]
			steps = append(steps, step{s.ID, section.Name, s.Needs, place.Layer, place.Row})
		}
	}
	return map[string]any{"steps": steps}
}
