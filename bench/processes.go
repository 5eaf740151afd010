package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// processStat is what the bench reads of a process in /proc, which only Linux has.
type processStat struct {
	parent int
	cpu    float64 // of the process and of its children that have ended, in seconds
}

// readStat reads the line of /proc/PID/stat.
func readStat(line string) (processStat, error) {
	// The name of the program is in parentheses, and may have spaces and parentheses itself.
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	const (
		parent     = 1
		user       = 11
		childrenIn = 14
		ticks      = 100 // a second
	)
	if end < 0 || len(fields) <= childrenIn {
		return processStat{}, fmt.Errorf("not the stat of a process: %q", line)
	}
	var s processStat
	var err error
	if s.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return processStat{}, fmt.Errorf("parent: %w", err)
	}
	for _, field := range fields[user : childrenIn+1] { // user and system, then the same of ended children
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return processStat{}, fmt.Errorf("CPU time: %w", err)
		}
		s.cpu += v / ticks
	}
	return s, nil
}

// statOf reads a process.
func statOf(pid int) (processStat, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	return readStat(string(line))
}

// familyCPU is the CPU time of a process, of its children and of theirs, those that have ended included, in seconds.
func familyCPU(pid int) (float64, error) {
	s, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	children := make(map[int][]int)
	used := map[int]float64{pid: s.cpu}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil || child == pid {
			continue
		}
		// One that has ended meanwhile is missed once: its time moves to its parent after that was read.
		if c, err := statOf(child); err == nil {
			children[c.parent] = append(children[c.parent], child)
			used[child] = c.cpu
		}
	}
	sum := 0.0
	for family := []int{pid}; len(family) > 0; family = family[1:] {
		sum += used[family[0]]
		family = append(family, children[family[0]]...)
	}
	return sum, nil
}

// usedBy is the CPU time of a process that has ended, and of its children, in seconds.
func usedBy(p *os.ProcessState) float64 { return (p.UserTime() + p.SystemTime()).Seconds() }
