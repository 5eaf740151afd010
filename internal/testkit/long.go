package testkit

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	longVariable = "TEST_LONG" // "1" runs every test in its long form
	seedVariable = "TEST_SEED" // draws other samples in the short form
)

// Long reports whether tests run in their long form, as `make test-long` has it. A test with both forms asserts the
// same in both, and covers in its short form a part of what the long form covers.
func Long() bool { return os.Getenv(longVariable) == "1" }

// NotQuick skips a test if `make quick` runs the tests: one that waits for more than about 0.7 s, computes for as long, or
// starts a cluster or a program.
func NotQuick(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes too long for `make quick`; `make test` runs it")
	}
}

// OnlyLong skips a test that takes more than ten seconds in any form, unless tests run in their long form.
func OnlyLong(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skipf("it takes too long for `make test`; %s=1 runs it, as `make test-long` does", longVariable)
	}
}

// Amount returns how much a test does: short, or long in the long form.
func Amount[N int | time.Duration](short, long N) N {
	if Long() {
		return long
	}
	return short
}

// Sample returns size of the items, in their order; in the long form, and if there are fewer, all of them. It takes the
// same ones each time, so that a test does not fail for a change that has nothing to do with it; TEST_SEED draws others.
func Sample[T any](t testing.TB, size int, items []T) []T {
	t.Helper()
	if Long() || size >= len(items) {
		return items
	}
	seed := Seed(t)
	t.Logf("a sample of %d of %d, with %s=%d; %s=1 runs all", size, len(items), seedVariable, seed, longVariable)
	return choose(seed, size, items)
}

// Seed returns the seed of the environment, or 0: for tests that draw what they do.
func Seed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return 0
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s must be a number of at least 0: %v", seedVariable, err)
	}
	return seed
}

// choose keeps the order of the items: each is taken with the chance that it fills the sample.
func choose[T any](seed uint64, size int, items []T) []T {
	random := rand.New(rand.NewPCG(seed, 0))
	chosen := make([]T, 0, size)
	for i, item := range items {
		if random.IntN(len(items)-i) < size-len(chosen) {
			chosen = append(chosen, item)
		}
	}
	return chosen
}
