package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dts-sched/dts/internal/fresh"
	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/task"
)

// recentRules: a node counts each forecast at most once a minute, even if its first caller leaves. Callers get one of
// up to two minutes while a newer one is counted.
var recentRules = fresh.Rules{
	Lifetime: time.Minute, Retry: 5 * time.Second, Limit: 2 * forecastBudget, Tolerate: 2 * time.Minute, Behind: true,
}

// recentForecast is a forecast, and what it leaves out.
type recentForecast struct {
	Forecast
	left []string
}

// recentForecasts are the forecasts that were asked for last.
type recentForecasts struct {
	mu    sync.Mutex
	known map[forecastOf]*fresh.Value[recentForecast]
	asked []forecastOf // those that are known, the one asked for last at the end
}

// forecastOf is what a forecast is of.
type forecastOf struct {
	namespace string
	hours     int
}

const recentLimit = 100 // forecasts that are known

// value returns what is known of a forecast. It forgets the one that nobody has asked for longest.
func (r *recentForecasts) value(what forecastOf) *fresh.Value[recentForecast] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.asked, what); i >= 0 {
		r.asked = slices.Delete(r.asked, i, i+1)
	} else if len(r.asked) == recentLimit {
		delete(r.known, r.asked[0])
		r.asked = slices.Delete(r.asked, 0, 1)
	}
	r.asked = append(r.asked, what)
	if r.known == nil {
		r.known = make(map[forecastOf]*fresh.Value[recentForecast])
	}
	if r.known[what] == nil {
		r.known[what] = &fresh.Value[recentForecast]{}
	}
	return r.known[what]
}

// RecentForecast is Forecast as it was two minutes ago at most, without names. It leaves out what cannot be read, which
// redisx.LeavingOut notes. A caller waits for it only if nobody has asked for it in these minutes. Errors: those of
// Forecast; CodeInvalid for the namespace.
func (c *Control) RecentForecast(ctx context.Context, who Caller, hours int) (Forecast, error) {
	if _, err := c.begin(ctx, who, "forecast"); err != nil {
		return Forecast{}, err
	}
	if who.Namespace != EveryNamespace {
		if err := task.ValidateName("namespace", who.Namespace); err != nil {
			return Forecast{}, err
		}
	}
	known := c.recent.value(forecastOf{who.Namespace, hours})
	found, err := known.Get(ctx, recentRules, func(ctx context.Context) (recentForecast, error) {
		ctx, left := redisx.LeavingOut(ctx)
		f, err := c.Forecast(ctx, who, hours, 0)
		return recentForecast{f, left.Texts()}, err
	})
	if err != nil && ctx.Err() != nil {
		return Forecast{}, ctx.Err()
	}
	redisx.PassOn(ctx, found.left)
	return found.Forecast, err
}
