package printer

import (
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func TestRelative_IsShortAndRounded(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "now", 400 * time.Millisecond: "now", -400 * time.Millisecond: "now",
		time.Second: "in 1 second", -time.Second: "1 second ago", 59 * time.Second: "in 59 seconds", 59600 * time.Millisecond: "in 1 minute",
		-90 * time.Second: "2 minutes ago", 3 * time.Minute: "in 3 minutes", 59*time.Minute + 50*time.Second: "in 1 hour",
		-47 * time.Hour: "47 hours ago", 48 * time.Hour: "in 2 days", -59 * day: "59 days ago", 60 * day: "in 2 months",
		-400 * day: "13 months ago", 10 * 365 * day: "in 10 years",
	} {
		if got := relative(now.Add(d), now); got != want {
			t.Errorf("%s from now is %q, want %q", d, got, want)
		}
	}
}

func TestFlat_RemovesWhatMovesTheCursor(t *testing.T) {
	if got := Flat("a\tb\nc\x1b[2J\x07\r\u009b"); got != "a b c[2J" {
		t.Errorf("got %q", got)
	}
}

func TestScrub_KeepsLines(t *testing.T) {
	if got := Scrub("a\tb\nc\x1b[2J"); got != "a\tb\nc[2J" {
		t.Errorf("got %q", got)
	}
}

func TestClip_CutsBetweenCharacters(t *testing.T) {
	if strings.ContainsRune(clip(strings.Repeat("é", 9), 5), '\uFFFD') || clip("short", 5) != "short" || clip("longer", 5) != "long…" {
		t.Error("clip does not cut between characters")
	}
}

func TestText_OfAmountsAndRatesHasFewDigits(t *testing.T) {
	p := New(Options{OutIsTerminal: true})
	for want, value := range map[string]any{
		"0 B": Bytes(0), "1023 B": Bytes(1023), "1 KiB": Bytes(1024), "1.5 MiB": Bytes(3 << 19), "1.0 GiB": Bytes(1 << 30),
		"0": Rate(0), "<0.0001": Rate(0.00001), "0.0025": Rate(0.00249), "0.3": Rate(0.3), "2": Rate(2), "1.2": Rate(1.23), "123": Rate(123.4),
	} {
		if got := p.Text(value); got != want {
			t.Errorf("%v is %q, want %q", value, got, want)
		}
	}
}
