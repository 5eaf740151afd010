package dts_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/dts-sched/dts"
)

// Orders is the payload of a step. Its Limit is a number, so the step below sets it by an expression.
type Orders struct {
	Shop  string `json:"shop"`
	Limit int    `json:"limit"`
}

// Revenue is what that step returns.
type Revenue struct {
	Shop string `json:"shop"`
	Cent int    `json:"cent"`
}

// bookkeeper starts a worker whose handlers the examples of workflows use, and returns a client. Call stop in the end.
func bookkeeper() (client *dts.Client, stop func()) {
	worker := dts.NewWorker(dts.WorkerOptions{Redis: redisURL, Lead: true, Logger: quiet})
	dts.HandleResult(worker, "orders.sum", func(_ context.Context, o Orders) (Revenue, error) {
		return Revenue{o.Shop, 150 * o.Limit}, nil
	})
	dts.HandleResult(worker, "revenue.add", func(_ context.Context, in struct{ Shops []Revenue }) (int, error) {
		total := 0
		for _, r := range in.Shops {
			total += r.Cent
		}
		return total, nil
	})
	dts.HandleResult(worker, "text.upper", func(_ context.Context, in struct{ Text string }) (string, error) {
		return strings.ToUpper(in.Text), nil
	})
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	<-worker.Ready()
	client, err := dts.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		end()
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
	}
}

// Each step gets what the one before it has returned.
func Example_chain() {
	client, stop := bookkeeper()
	defer stop()
	ctx := context.Background()

	run, err := client.Run(ctx, dts.Workflow{Steps: dts.Chain(
		dts.Step{ID: "orders", Type: "orders.sum", Payload: Orders{Shop: "north", Limit: 20}},
		dts.Step{ID: "headline", Type: "text.upper", Payload: map[string]string{
			"text": "${{ prev.output.shop }} sold for ${{ prev.output.cent }} cent",
		}},
	)}, nil)
	if err != nil {
		log.Fatal(err)
	}
	headline, err := dts.OutputOf[string](ctx, client, run.ID, "headline")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(headline)
	// Output: NORTH SOLD FOR 3000 CENT
}

// Steps of a group run side by side. The step behind them gets what all of them have returned.
func Example_chord() {
	client, stop := bookkeeper()
	defer stop()
	ctx := context.Background()

	revenue := dts.Workflow{
		Params: map[string]dts.Parameter{"limit": {Type: dts.ParameterInteger, Required: true}},
		Steps: dts.Chord(
			dts.Group(
				dts.Step{ID: "north", Type: "orders.sum", Payload: Orders{Shop: "north", Limit: 20}},
				dts.Step{ID: "south", Type: "orders.sum", Payload: Orders{Shop: "south"}, Set: map[string]string{
					"limit": dts.Param("limit"),
				}},
			),
			dts.Step{ID: "total", Type: "revenue.add", Payload: map[string]any{
				"shops": []string{dts.Output("north"), dts.Output("south")},
			}},
		),
	}
	run, err := client.Run(ctx, revenue, map[string]int{"limit": 2})
	if err != nil {
		log.Fatal(err)
	}
	total, err := dts.OutputOf[int](ctx, client, run.ID, "total")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(total, "cent")
	// Output: 3300 cent
}

// Steps can name what they need themselves. A step with Decide chooses which of the steps behind it go on.
func ExampleWorkflow() {
	client, stop := bookkeeper()
	defer stop()
	ctx := context.Background()

	run, err := client.Run(ctx, dts.Workflow{Steps: dts.Steps{
		{ID: "orders", Type: "orders.sum", Payload: Orders{Shop: "north", Limit: 2}},
		{ID: "choose", Needs: []string{"orders"}, Decide: []dts.Choice{
			{When: "steps.orders.output.cent > 1000", Then: []string{"cheer"}},
			{Then: []string{"mourn"}},
		}},
		{ID: "cheer", Needs: []string{"choose"}, Type: "text.upper", Payload: map[string]string{"text": "hooray"}},
		{ID: "mourn", Needs: []string{"choose"}, Type: "text.upper", Payload: map[string]string{"text": "alas"}},
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err = client.Wait(ctx, run.ID); err != nil {
		log.Fatal(err)
	}
	ended, err := client.GetRun(ctx, run.ID)
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range ended.Steps {
		fmt.Println(step.ID, step.State)
	}
	// Output:
	// orders succeeded
	// choose succeeded
	// cheer skipped
	// mourn succeeded
}

// A workflow that was put has a name, by which programs and schedules start its runs.
func ExampleClient_StartWorkflow() {
	client, stop := bookkeeper()
	defer stop()
	ctx := context.Background()

	_, err := client.PutWorkflow(ctx, "takings", dts.Workflow{
		Params: map[string]dts.Parameter{"shop": {Type: dts.ParameterString, Required: true}},
		Steps: dts.Chain(
			dts.Step{ID: "orders", Type: "orders.sum", Payload: Orders{Shop: dts.Param("shop"), Limit: 20}},
			dts.Step{ID: "headline", Type: "text.upper", Payload: map[string]string{
				"text": "${{ prev.output.shop }} sold for ${{ prev.output.cent }} cent",
			}},
		),
		Output: dts.Output("headline"),
	})
	if err != nil {
		log.Fatal(err)
	}
	run, err := client.StartWorkflow(ctx, "takings", dts.Params{"shop": "south"})
	if err != nil {
		log.Fatal(err)
	}
	ended, err := client.Wait(ctx, run.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ended.Result)
	// Output: "SOUTH SOLD FOR 3000 CENT"
}

// A step can wait for a signal, and for somebody who approves what comes next. Its output is what was said.
func ExampleClient_ApproveStep() {
	client, stop := bookkeeper()
	defer stop()
	ctx := context.Background()

	run, err := client.Run(ctx, dts.Workflow{Steps: dts.Chain(
		dts.Step{ID: "paid", Wait: &dts.Wait{Signal: "paid", Timeout: 24 * time.Hour}},
		dts.Step{ID: "release", Wait: &dts.Wait{Approval: &dts.Approval{
			By:   []string{"ops"},
			Form: map[string]dts.Parameter{"limit": {Type: dts.ParameterInteger, Required: true}},
		}}},
		dts.Step{ID: "orders", Type: "orders.sum", Payload: Orders{Shop: "north"}, Set: map[string]string{
			"limit": "${{ prev.output.data.limit }}",
		}},
	)}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.SignalRun(ctx, run.ID, "paid", map[string]string{"by": "card"}); err != nil {
		log.Fatal(err)
	}
	// The step release waits as soon as the one before it has its signal.
	paid, err := dts.OutputOf[map[string]string](ctx, client, run.ID, "paid")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.ApproveStep(ctx, run.ID, "release", "as agreed", map[string]int{"limit": 3}); err != nil {
		log.Fatal(err)
	}
	revenue, err := dts.OutputOf[Revenue](ctx, client, run.ID, "orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paid by", paid["by"], "and sold for", revenue.Cent, "cent")
	// Output: paid by card and sold for 450 cent
}
