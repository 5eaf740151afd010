package config_test

import (
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
)

func TestDurability_ReadsWhatItWrites(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Durability{
		"none":         {},
		"wait=1":       {Replicas: 1, Timeout: time.Second},
		"wait=2,500ms": {Replicas: 2, Timeout: 500 * time.Millisecond},
	} {
		var got, again config.Durability
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		if err := again.Set(got.String()); err != nil || again != want {
			t.Errorf("%s, written as %s: %+v, %v", text, got.String(), again, err)
		}
	}
}

func TestDurability_RefusesWhatItCannotBe(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1", "wait", "wait=", "wait=0", "wait=17", "wait=1,", "wait=1,5ms", "wait=1,3s", "wait=1,1s,1s", "wait=x"} {
		d := config.Durability{Replicas: 3}
		if err := d.Set(text); err == nil {
			t.Errorf("%q is accepted as %+v", text, d)
		}
	}
}
