package config_test

import (
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/config"
)

func TestSize_IsAWholeNumberAndAUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Size{
		"1KiB": 1024, "512MiB": 512 << 20, "2 GiB": 2 << 30, "1024MiB": 1 << 30, "3TiB": 3 << 40,
	} {
		got, err := config.ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
		if again, err := config.ParseSize(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s, which is read as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "1", "MiB", "-1MiB", "0MiB", "1.5GiB", "1MB", "9999999999999TiB"} {
		got, err := config.ParseSize(text)
		if err == nil || !strings.Contains(err.Error(), `"`+text+`" is no size, such as 512MiB`) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
