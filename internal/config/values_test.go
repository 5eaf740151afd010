package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dts-sched/dts/internal/config"
)

func TestQueues_AreReadAndWritten(t *testing.T) {
	var q config.Queues
	if err := q.Set(" low , default=3,critical=6"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Queues{"critical": 6, "default": 3, "low": 1}, q); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := q.String(), "critical=6,default=3,low=1"; got != want {
		t.Errorf("written as %s, want %s", got, want)
	}
}

func TestQueues_RefuseAnUnclearText(t *testing.T) {
	for _, text := range []string{"a=1,a=2", "a=", "a=1.5", "a=1=2", ",", "a=x"} {
		before := config.Queues{"kept": 1}
		q := before
		err := q.Set(text)
		if err == nil && text != "," { // an empty name is for Validate, which knows the setting
			t.Errorf("%q is read as %v", text, q)
		}
		if err != nil && !cmp.Equal(before, q) {
			t.Errorf("%q is refused but changed the queues to %v", text, q)
		}
	}
}

func TestLabels_AreReadAndWritten(t *testing.T) {
	var l config.Labels
	for _, text := range []string{" zone=eu , gpu = 2,spot", "mem=", ""} {
		if err := l.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(config.Labels{"zone": "eu", "gpu": "2", "spot": "", "mem": ""}, l); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := l.String(), "gpu=2,mem,spot,zone=eu"; got != want {
		t.Errorf("written as %s, want %s", got, want)
	}
	for _, text := range []string{"zone=us", "a=1,a=1"} {
		before := l.String()
		if err := l.Set(text); err == nil || !strings.Contains(err.Error(), "is named twice") || l.String() != before {
			t.Errorf("%q: error %v, and the labels are %s", text, err, l)
		}
	}
}

// What is read can be written and read again, and means the same.
func FuzzQueues(f *testing.F) {
	for _, seed := range []string{"critical=6,default=3,low=1", "a", "", ",", "a=1,a=2", "a==1", " a = 1 "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var q, again config.Queues
		if q.Set(text) != nil {
			return
		}
		if err := again.Set(q.String()); err != nil {
			t.Fatalf("%q is written as %q, which is refused: %v", text, q, err)
		}
		if diff := cmp.Diff(q, again); diff != "" {
			t.Errorf("%q read again (-first +second):\n%s", text, diff)
		}
	})
}

func FuzzPool(f *testing.F) {
	for _, seed := range []string{"reports:2:reports=1", "a:1:x,y=2", "::", "a:b:c", "a:1:", "a:1:x:y", " a : 1 : x "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := config.ParsePool(text)
		if err != nil {
			return
		}
		again, err := config.ParsePool(p.String())
		if err != nil {
			t.Fatalf("%q is written as %q, which is refused: %v", text, p, err)
		}
		if diff := cmp.Diff(p, again); diff != "" {
			t.Errorf("%q read again (-first +second):\n%s", text, diff)
		}
	})
}
