package dts

import (
	"encoding/json"
	"fmt"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/definition"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/workflow"
	"github.com/dts-sched/dts/internal/workflow/text"
	"github.com/dts-sched/dts/internal/workflow/words"
)

// definitionRead returns the workflow of an answer. What a newer server says besides is left out.
func definitionRead(raw json.RawMessage) (Workflow, error) {
	var known words.Workflow
	if err := json.Unmarshal(raw, &known); err != nil {
		return Workflow{}, fmt.Errorf("a workflow of the server cannot be read: %w", err)
	}
	written, err := wire.Encode(known)
	if err != nil {
		return Workflow{}, err
	}
	d, err := text.Parse(task.DefaultNamespace, string(written))
	if err != nil {
		return Workflow{}, fmt.Errorf("a workflow of the server cannot be read: %w", err)
	}
	return workflowRead(d), nil
}

func workflowRead(d workflow.Definition) Workflow {
	w := Workflow{
		Description: d.Description, Owner: d.Owner, Labels: d.Labels, Failure: FailurePolicy(d.Failure), AtOnce: d.AtOnce,
		MaxRuns: d.MaxRuns, Deadline: d.Deadline, Closing: d.Closing, Retention: d.Retention, Output: anyOf(d.Output),
		Steps: each(d.Steps, stepRead), OnFailure: each(d.OnFailure, stepRead), Finally: each(d.Finally, stepRead),
	}
	w.Params = parametersRead(d.Params)
	return w
}

func parametersRead(in []workflow.Param) (out map[string]Parameter) {
	for _, p := range in {
		if out == nil {
			out = make(map[string]Parameter, len(in))
		}
		out[p.Name] = Parameter{
			Type: ParameterType(p.Type), Required: p.Required, Default: anyOf(p.Default), Enum: each(p.Enum, anyOf),
			Pattern: p.Pattern, Min: p.Min, Max: p.Max,
		}
	}
	return out
}

// waitRead is nil for nothing.
func waitRead(w *workflow.Wait) *Wait {
	if w == nil {
		return nil
	}
	out := &Wait{For: w.For, Until: w.Until, Signal: w.Signal, Timeout: w.Timeout, OnTimeout: OnTimeout(w.OnTimeout)}
	if a := w.Approval; a != nil {
		out.Approval = &Approval{By: a.By, Form: parametersRead(a.Form)}
	}
	return out
}

// waitOfAnswer returns what a step of a run waits for, as far as this release knows it.
func waitOfAnswer(raw json.RawMessage) *Wait {
	var known words.Wait
	if len(raw) == 0 || json.Unmarshal(raw, &known) != nil {
		return nil
	}
	w, err := text.ParseWait(known)
	if err != nil {
		return nil
	}
	return waitRead(w)
}

// anyOf is nil for no value.
func anyOf(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return raw
}

func stepRead(s workflow.Step) Step {
	out := Step{
		ID: s.ID, Needs: s.Needs, Rule: Rule(s.Rule), When: s.When, AllowFailure: s.AllowFailure,
		Decide: each(s.Decide, func(c workflow.Choice) Choice { return Choice{When: c.When, Then: c.Then} }),
		Wait:   waitRead(s.Wait),
	}
	t := s.Task
	if t == nil {
		return out
	}
	out.Type, out.Queue, out.Payload, out.Timeout = t.Type, t.Queue, anyOf(t.Payload), t.Timeout
	out.Owner, out.Labels, out.StartBy = t.Owner, t.Labels, t.StartBy
	out.Priority, out.FairKey, out.FairWeight, out.LimitKey = t.Priority, t.FairKey, t.FairWeight, t.LimitKey
	out.Cost = t.Cost
	selector, prefer, route, slots := definition.Reach(*t)
	out.Slots = wire.Value(slots)
	out.Select, out.Prefer, out.Route = wire.Value(selector), preferencesFrom(prefer), routeFrom(route)
	out.Retry = Retry{
		MaxAttempts: t.Retry.MaxAttempts, MaxElapsed: t.Retry.MaxElapsed, Delays: t.Retry.Delays,
		Backoff: Backoff{
			Initial: t.Retry.Backoff.Initial, Factor: t.Retry.Backoff.Factor, Max: t.Retry.Backoff.Max,
			Jitter: t.Retry.Backoff.Jitter,
		},
	}
	return out
}
