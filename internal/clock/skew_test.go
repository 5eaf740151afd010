package clock

import (
	"testing"
	"time"
)

func TestSkew_MovesWhatTheClockShowsAndNoInterval(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "5m", "-5m"} {
		by := parseSkew(text)
		now := time.Now()
		skewed := shifted(now, by)
		if shown := skewed.UnixNano() - now.UnixNano(); shown != int64(by) {
			t.Errorf("%q: the clock shows %s more, want %s", text, time.Duration(shown), by)
		}
		if apart := skewed.Sub(now); apart != 0 {
			t.Errorf("%q: the intervals are wrong by %s", text, apart)
		}
		if shown := skewed.Add(time.Hour).UnixNano() - now.UnixNano(); shown != int64(by+time.Hour) {
			t.Errorf("%q: an hour later, the clock shows %s more, want %s", text, time.Duration(shown), by+time.Hour)
		}
	}
}

func TestSkew_RefusesWhatItCannotMoveBy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"5", "1500ms"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q passed for a skew", text)
				}
			}()
			parseSkew(text)
		}()
	}
}
