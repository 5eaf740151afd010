package dts_test

import (
	"context"
	"testing"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/store"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// BenchmarkSubmit submits tasks of the far future, 32 callers at once: through the use cases themselves, and through Open, which adds
// the encoding of the API to them.
func BenchmarkSubmit(b *testing.B) {
	redis := redistest.Start(b)
	client, err := dts.Open(redis.URL())
	testkit.Must(b, err)
	defer func() { testkit.Must(b, client.Close()) }()
	data, err := store.Open(b.Context(), store.Options{DB: redis.DB(b)})
	testkit.Must(b, err)
	useCases := control.New(control.Options{Store: data})
	payload := map[string]string{"to": "ada@example.com"}
	for name, submit := range map[string]func(context.Context) error{
		"control": func(ctx context.Context) error {
			_, err := useCases.Submit(ctx, control.Caller{Namespace: "default"}, task.Definition{Type: "mail", Payload: []byte(`{"to":"ada@example.com"}`), Delay: task.HorizonLimit})
			return err
		},
		"open": func(ctx context.Context) error {
			_, err := client.Submit(ctx, dts.Submission{Type: "mail", Payload: payload, Delay: task.HorizonLimit})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					testkit.Must(b, submit(b.Context()))
				}
			})
		})
	}
}
