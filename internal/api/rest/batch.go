package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/wire"
)

// BatchBytes is how many bytes of tasks go into one request. The server takes 8 MiB.
const BatchBytes = 6 << 20

// SubmitBatch submits tasks, each in the form that POST /v1/tasks takes. The answer has one result per task, in their
// order. A nil namespace leaves the choice to the server, for tasks that name none.
func (c *Client) SubmitBatch(ctx context.Context, namespace *string, tasks []json.RawMessage) (Answer[wire.BatchAnswer], error) {
	return c.sendBatch(ctx, &client.SubmitTasksParams{Namespace: namespace}, tasks)
}

// PreviewBatch returns what SubmitBatch would, and submits nothing.
func (c *Client) PreviewBatch(ctx context.Context, namespace *string, tasks []json.RawMessage) (Answer[wire.BatchAnswer], error) {
	return c.sendBatch(ctx, &client.SubmitTasksParams{Namespace: namespace, DryRun: new(true)}, tasks)
}

func (c *Client) sendBatch(ctx context.Context, params *client.SubmitTasksParams, tasks []json.RawMessage) (Answer[wire.BatchAnswer], error) {
	body, err := Body(map[string][]json.RawMessage{"tasks": tasks})
	if err != nil {
		return Answer[wire.BatchAnswer]{}, err
	}
	answer, err := Read[wire.BatchAnswer](c.SubmitTasksWithBodyWithResponse(ctx, params, JSONType, body))
	if err == nil && len(answer.Value.Results) != len(tasks) {
		err = Misunderstood(fmt.Errorf("it has %d results for %d tasks", len(answer.Value.Results), len(tasks)))
	}
	return answer, err
}
