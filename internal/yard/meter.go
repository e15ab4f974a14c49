package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the number of ticks in a second in /proc/*/stat.
const ticksPerSecond = 100

// meter measures the cost of a run's processes between start and stop.
type meter struct {
	postgresPID int // the first process of the server; 0 if the server is not on this machine
	ledgerPID   int

	startedAt     time.Time
	cpuAtStart    cpuSeconds
	memoryAtStart runtime.MemStats
}

// cpuSeconds are seconds of CPU time, or numbers of cores after a division by time.
type cpuSeconds struct {
	Client   float64 `json:"client"`
	Postgres float64 `json:"postgres"`
	Ledger   float64 `json:"ledger"`
}

func (m *meter) start() error {
	runtime.GC()
	runtime.ReadMemStats(&m.memoryAtStart)
	var err error
	m.cpuAtStart, err = m.usedCPU()
	m.startedAt = time.Now()
	return err
}

// stop sets the cost of each of the run's n batches.
func (m *meter) stop(r *result, n int) error {
	r.Seconds = time.Since(m.startedAt).Seconds()
	now, err := m.usedCPU()
	if err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.Rate = float64(n) / r.Seconds
	r.CPU = cpuSeconds{
		(now.Client - m.cpuAtStart.Client) / r.Seconds, (now.Postgres - m.cpuAtStart.Postgres) / r.Seconds,
		(now.Ledger - m.cpuAtStart.Ledger) / r.Seconds,
	}
	r.Allocs = float64(memory.Mallocs-m.memoryAtStart.Mallocs) / float64(n)
	r.AllocBytes = float64(memory.TotalAlloc-m.memoryAtStart.TotalAlloc) / float64(n)
	r.PeakRSS, err = statusMiB("VmHWM")
	return err
}

// usedCPU returns the CPU time that the processes have used since each began.
func (m *meter) usedCPU() (cpuSeconds, error) {
	var s cpuSeconds
	var err error
	if s.Client, err = familyCPU(os.Getpid()); err != nil { // includes the processes that add
		return s, err
	}
	if m.ledgerPID != 0 {
		l, err := readProcess(m.ledgerPID)
		if err != nil {
			return s, err
		}
		s.Ledger = l.ownCPU
	}
	if m.postgresPID != 0 {
		if s.Postgres, err = familyCPU(m.postgresPID); err != nil {
			return s, err
		}
	}
	return s, nil
}

// processStat is the content of /proc/PID/stat.
type processStat struct {
	parent                   int
	ownCPU, endedChildrenCPU float64 // seconds; children that still run are not included
}

func readProcess(pid int) (processStat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	_, rest, ok := strings.Cut(string(b), ") ") // the name may contain spaces
	f := strings.Fields(rest)
	if !ok || len(f) < 15 {
		return processStat{}, fmt.Errorf("/proc/%d/stat: %q", pid, b)
	}
	n := make([]int, 15)
	for _, i := range []int{1, 11, 12, 13, 14} { // parent; user and system time, of the process and of its children
		if n[i], err = strconv.Atoi(f[i]); err != nil {
			return processStat{}, err
		}
	}
	return processStat{n[1], float64(n[11]+n[12]) / ticksPerSecond, float64(n[13]+n[14]) / ticksPerSecond}, nil
}

// familyCPU returns the CPU time that a process and its children have used, including ended
// children.
func familyCPU(pid int) (float64, error) {
	head, err := readProcess(pid)
	if err != nil {
		return 0, err
	}
	sum := head.ownCPU + head.endedChildrenCPU
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if p, err := readProcess(child); err == nil && p.parent == pid { // the child may have ended meanwhile
			sum += p.ownCPU
		}
	}
	return sum, nil
}

// statusMiB returns the value of a line of /proc/self/status, in MiB.
func statusMiB(name string) (float64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(b), name+":")
	if !ok {
		return 0, fmt.Errorf("/proc/self/status has no %s", name)
	}
	f := strings.Fields(rest)
	kb, err := strconv.Atoi(f[0])
	return float64(kb) / 1024, err
}
