package main

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	page       = 4 << 10 // bytes of memory
	floorReads = 1000    // pages that a read touches
	floorEvery = time.Second / 200
)

// memoryFloor measures what the machine's memory alone adds to lateness: it fills plain memory of that many bytes,
// reads some of its pages at 200/s for some time, and returns how late the reads end, in ms.
func memoryFloor(ctx context.Context, bytes int, during time.Duration) (late []float64, err error) {
	memory := make([]byte, bytes)
	defer debug.FreeOSMemory()
	for i := 0; i < bytes; i += page {
		memory[i] = 1
	}
	start, read := clock.Now(), byte(0)
	for due := start; due.Sub(start) < during; due = due.Add(floorEvery) {
		if err := clock.Sleep(ctx, clock.Until(due)); err != nil {
			return nil, err
		}
		for range floorReads {
			read += memory[rand.IntN(bytes)]
		}
		late = append(late, milliseconds(clock.Since(due)))
	}
	memory[0] = read
	return late, nil
}
