package main

import (
	"time"

	"github.com/hibiken/asynq"
)

// provider stands for yours.
type provider struct{}

// GetConfigs implements asynq.PeriodicTaskConfigProvider.
func (p *provider) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	return []*asynq.PeriodicTaskConfig{
		{
			Cronspec: "CRON_TZ=Europe/Berlin 0 9 * * MON-FRI", Task: asynq.NewTask("email:digest", []byte(`{"audience":"customers"}`)),
			Opts: []asynq.Option{asynq.Queue("mails"), asynq.MaxRetry(5), asynq.Timeout(2 * time.Minute)},
		},
		{
			Cronspec: "@every 30s", Task: asynq.NewTask("cache:refresh", nil),
			Opts: []asynq.Option{asynq.Queue("mails"), asynq.Unique(time.Hour)},
		},
	}, nil
}
