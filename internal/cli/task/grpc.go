package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/flags"
)

type grpcOptions struct {
	createOptions
	Call   flags.GRPCCall
	Target string
	Method string
}

func newGRPCCommand(f *command.Factory) *cobra.Command {
	opts := &grpcOptions{createOptions: newCreateOptions(f)}
	cmd := &cobra.Command{
		Use:         "grpc TARGET METHOD",
		Annotations: command.Asks("submitTask", "getTask", "readLogs", "followEvents"),
		Short:       "Submit a task that calls a gRPC method",
		Long: `grpc submits a task of type grpc: a worker calls the unary METHOD, named package.Service/Method, of the server at
TARGET, named HOST:PORT, and the task succeeds if the status is OK. The response, as JSON, is its result.

The server describes its methods by reflection. If it does not, --descriptor-set or --descriptor-file does.`,
		Example: `  dtsctl task grpc orders.internal:50051 grpc.health.v1.Health/Check --wait
  dtsctl task grpc orders.internal:50051 shop.Orders/Close -d '{"order": 42}' --tls -H 'authorization: Bearer abc'
  dtsctl task grpc 10.0.0.7:50051 shop.Orders/Close -d @order.json --descriptor-set orders.binpb --retry-codes NOT_FOUND`,
		Args: command.ExactArgs("TARGET", "METHOD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Target, opts.Method = args[0], args[1]
			return grpcRun(cmd.Context(), opts)
		},
	}
	opts.bind(cmd)
	opts.Call.Bind(cmd.Flags())
	command.CompleteFiles(cmd, "descriptor-set")
	return cmd
}

func grpcRun(ctx context.Context, opts *grpcOptions) error {
	payload, err := opts.Call.Payload(opts.Stdin, opts.Target, opts.Method)
	if err != nil {
		return err
	}
	return createRun(ctx, &opts.createOptions, "grpc", payload)
}
