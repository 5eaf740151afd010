package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/dts-sched/dts/internal/api/client"
	"github.com/dts-sched/dts/internal/api/rest"
	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/limit"
	"github.com/dts-sched/dts/internal/manifest"
)

// setLimit sends what a limit allows and completes the result.
func (a *applier) setLimit(ctx context.Context, e *manifest.Entry, r *result) error {
	var before json.RawMessage // what it allows now
	if a.dryRun && !a.checking {
		answer, err := rest.Read[wire.LimitEntry](a.client.GetLimitWithResponse(ctx, e.ID))
		if now := answer.Value; err == nil && now.SetAs == nil { // else another one applies to it now
			before, err = wire.Encode(wire.LimitRule{Slots: now.Slots, Rate: now.Rate, Per: now.Per, Burst: now.Burst})
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
	if a.dryRun && change == outcomeCreated {
		if err := a.checkRoom(ctx); err != nil {
			return err
		}
	}
	if !a.dryRun || a.checking {
		return nil
	}
	differences, err := manifest.LimitChanges(before, e.Body)
	r.Changes = fieldChanges(differences)
	return err
}

// checkRoom refuses a limit that a dry run would create, if there would be too many together with those before it. The
// server has counted those that there are.
func (a *applier) checkRoom(ctx context.Context) error {
	if a.created++; a.created == 1 {
		return nil
	}
	if a.created == 2 {
		answer, err := rest.Read[wire.LimitList](a.client.ListLimitsWithResponse(ctx))
		if err != nil {
			return err
		}
		a.limits = len(answer.Value.Limits)
	}
	if a.limits+a.created <= limit.Most {
		return nil
	}
	const text = "there are %d limits, and at most %d may be: delete others, or set one for several names, such as key:*"
	return &rest.Refusal{Problem: wire.Problem{
		Code: wire.Invalid, Field: new("name"), Detail: fmt.Sprintf(text, a.limits, limit.Most),
	}}
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
