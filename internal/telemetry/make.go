package telemetry

import "github.com/prometheus/client_golang/prometheus"

// maker makes metrics whose names begin with dts_, and registers them.
type maker struct{ *prometheus.Registry }

func (r maker) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return made(r, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dts_" + name, Help: help, Buckets: buckets}))
}

func (r maker) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Name: "dts_" + name, Help: help, Buckets: buckets}
	return made(r, prometheus.NewHistogramVec(o, labels))
}

func (r maker) counter(name, help string) prometheus.Counter {
	return made(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "dts_" + name, Help: help}))
}

func (r maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return made(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dts_" + name, Help: help}, labels))
}

func (r maker) gauge(name, help string) prometheus.Gauge {
	return made(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "dts_" + name, Help: help}))
}

// made registers a metric and returns it.
func made[C prometheus.Collector](r maker, c C) C {
	r.MustRegister(c)
	return c
}
