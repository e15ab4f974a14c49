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
	postgres int // the first process of the server; 0 if the server is not on this machine
	ledger   int

	at     time.Time
	cpu    cpuSeconds
	memory runtime.MemStats
}

// cpuSeconds are seconds of CPU time, or numbers of cores after a division by time.
type cpuSeconds struct {
	Client   float64 `json:"client"`
	Postgres float64 `json:"postgres"`
	Ledger   float64 `json:"ledger"`
}

func (m *meter) start() error {
	runtime.GC()
	runtime.ReadMemStats(&m.memory)
	var err error
	m.cpu, err = m.used()
	m.at = time.Now()
	return err
}

// stop sets the cost of each of the run's n batches.
func (m *meter) stop(r *result, n int) error {
	r.Seconds = time.Since(m.at).Seconds()
	now, err := m.used()
	if err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.Rate = float64(n) / r.Seconds
	r.CPU = cpuSeconds{
		(now.Client - m.cpu.Client) / r.Seconds, (now.Postgres - m.cpu.Postgres) / r.Seconds,
		(now.Ledger - m.cpu.Ledger) / r.Seconds,
	}
	r.Allocs = float64(memory.Mallocs-m.memory.Mallocs) / float64(n)
	r.AllocBytes = float64(memory.TotalAlloc-m.memory.TotalAlloc) / float64(n)
	r.PeakRSS, err = statusMiB("VmHWM")
	return err
}

// used returns the CPU time that the processes have used since each began.
func (m *meter) used() (cpuSeconds, error) {
	var s cpuSeconds
	var err error
	if s.Client, err = familyCPU(os.Getpid()); err != nil { // includes the processes that add
		return s, err
	}
	if m.ledger != 0 {
		l, err := readProcess(m.ledger)
		if err != nil {
			return s, err
		}
		s.Ledger = l.self
	}
	if m.postgres != 0 {
		if s.Postgres, err = familyCPU(m.postgres); err != nil {
			return s, err
		}
	}
	return s, nil
}

// process is a line of /proc/*/stat.
type process struct {
	parent         int
	self, children float64 // seconds of CPU; children counts ended children only
}

func readProcess(pid int) (process, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	_, rest, ok := strings.Cut(string(b), ") ") // the name may contain spaces
	f := strings.Fields(rest)
	if !ok || len(f) < 15 {
		return process{}, fmt.Errorf("/proc/%d/stat: %q", pid, b)
	}
	n := make([]int, 15)
	for _, i := range []int{1, 11, 12, 13, 14} { // parent; user and system time, of the process and of its children
		if n[i], err = strconv.Atoi(f[i]); err != nil {
			return process{}, err
		}
	}
	return process{n[1], float64(n[11]+n[12]) / ticksPerSecond, float64(n[13]+n[14]) / ticksPerSecond}, nil
}

// familyCPU returns the CPU time that a process and its children have used, including ended
// children.
func familyCPU(pid int) (float64, error) {
	head, err := readProcess(pid)
	if err != nil {
		return 0, err
	}
	sum := head.self + head.children
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
			sum += p.self
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
