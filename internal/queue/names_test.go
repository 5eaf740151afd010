package queue

import "testing"

func TestNames_ShowOnlyANonDefaultPrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prefix, queue, asynq string }{
		{"", "default", "default"}, {"dts", "default", "default"}, {"dts", "a.b", "a.b"},
		{"staging", "default", "staging.default"}, {"staging", "staging.x", "staging.staging.x"},
	} {
		if got := names(c.prefix).asynq(c.queue); got != c.asynq {
			t.Errorf("%q: %s is %s in asynq, want %s", c.prefix, c.queue, got, c.asynq)
		}
		if got, ours := names(c.prefix).queue(c.asynq); got != c.queue || !ours {
			t.Errorf("%q: %s is %s, ours %v", c.prefix, c.asynq, got, ours)
		}
	}
	if _, ours := names("staging").queue("default"); ours {
		t.Error("a queue of another installation is ours")
	}
}
