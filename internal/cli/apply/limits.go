package apply

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/manifest"
)

// setLimit sends what a limit allows and completes the result.
func (a *applier) setLimit(ctx context.Context, e *manifest.Entry, r *result) error {
	var before json.RawMessage // what it allows now
	if a.dryRun && !a.checking {
		answer, err := rest.Read[wire.LimitRule](a.client.GetLimitWithResponse(ctx, e.ID))
		if err == nil {
			before, err = wire.Encode(answer.Value)
		}
		if err != nil && !isNotFound(err, wire.LimitNotFound) {
			return err
		}
	}
	change, err := sendLimit(ctx, a.client, e, a.dryRun)
	if err != nil {
		return err
	}
	r.Outcome = change
	if !a.dryRun || a.checking {
		return nil
	}
	differences, err := manifest.LimitChanges(before, e.Body)
	r.Changes = fieldChanges(differences)
	return err
}

// sendLimit sends what a limit allows, and returns what came of it.
func sendLimit(ctx context.Context, c *rest.Client, e *manifest.Entry, dryRun bool) (outcome, error) {
	params := &client.SetLimitParams{}
	if dryRun {
		params.DryRun = &dryRun
	}
	response, err := c.SetLimitWithBodyWithResponse(ctx, e.ID, params, rest.JSONType, bytes.NewReader(e.Body))
	if _, err = rest.Read[struct{}](response, err); err != nil {
		return "", err
	}
	return outcome(response.HTTPResponse.Header.Get(changeHeader)), nil
}
