package testkit

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metric returns the value of a counter or a gauge, or how many values a histogram has seen. c is one of these, and has no labels that are
// not set.
func Metric(t testing.TB, c any) float64 {
	t.Helper()
	var m dto.Metric
	Must(t, c.(prometheus.Metric).Write(&m))
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
}
