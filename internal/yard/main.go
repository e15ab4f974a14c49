package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if runAsChild() {
		return
	}
	var o options
	flag.StringVar(&o.modes, "mode", "all", "modes, by comma; all; an empty one to make the page anew from its figures; or of "+strings.Join(modeNames(), ", "))
	flag.StringVar(&o.contenders, "only", "", "contenders, by comma: ours, floor, river; none is all")
	flag.IntVar(&o.batches, "n", 0, "batches; 0 is the mode's own number")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds, in each of which every contender runs once")
	flag.DurationVar(&o.steadyTime, "hold", 0, "how long mode held goes on; 0 is its own time, of 2 minutes")
	flag.Float64Var(&o.batchesPerSecond, "pace", 0, "batches a second of mode held; 0 is its own pace, of 2,000")
	flag.DurationVar(&o.runTimeout, "limit", 10*time.Minute, "how long one run may take")
	flag.StringVar(&o.profileFolder, "cpuprofile", "", "folder for CPU profiles of every run")
	flag.StringVar(&o.pagePath, "docs", "", "page whose figures, with a plot beside it, are made anew")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func() error { return measure(ctx, o, os.Stdout) }
	if o.modes == "" {
		do = o.remakePage
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "yard:", err)
		os.Exit(1)
	}
}

func modeNames() (all []string) {
	for _, m := range modes() {
		all = append(all, m.name)
	}
	return all
}

// options are the values of the flags.
type options struct {
	modes, contenders       string
	batches, rounds         int
	runTimeout, steadyTime  time.Duration
	batchesPerSecond        float64
	profileFolder, pagePath string
}

// loadPageFigures loads the figures that the page has so far.
func (o options) loadPageFigures() (page, error) {
	if o.pagePath == "" {
		return page{}, nil
	}
	return loadPage(o.pagePath)
}

// remakePage writes the page again from its figures.
func (o options) remakePage() error {
	p, err := loadPage(o.pagePath)
	if err != nil {
		return err
	}
	return p.save(o.pagePath)
}

// chosenModes returns the modes to run, as changed by the flags.
func (o options) chosenModes() ([]benchMode, error) {
	// The flags -hold and -pace are allowed, because the page shows their values with the figures.
	if o.pagePath != "" && (o.contenders != "" || o.batches > 0) {
		return nil, fmt.Errorf("-docs %s: want no flag beside it that changes what is measured", o.pagePath)
	}
	all := modes()
	known := modeNames()
	var out []benchMode
	for _, name := range strings.Split(o.modes, ",") {
		if name == "all" {
			out = append(out, all...)
			continue
		}
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("-mode %q: want one of %s", name, strings.Join(known, ", "))
		}
		out = append(out, all[i])
	}
	for i := range out {
		out[i].entries = o.applyFlags(out[i].entries)
		if len(out[i].entries) == 0 {
			return nil, fmt.Errorf("-only %q leaves nothing of mode %s", o.contenders, out[i].name)
		}
	}
	return out, nil
}

func (o options) applyFlags(entries []modeEntry) (out []modeEntry) {
	for _, e := range entries {
		if o.contenders != "" && !slices.Contains(strings.Split(o.contenders, ","), e.job.Contender) {
			continue
		}
		j := &e.job
		j.Batches, j.Lanes = cmp.Or(o.batches, j.Batches, defaultBatches), cmp.Or(j.Lanes, defaultLanes)
		if j.SteadyTime > 0 {
			j.SteadyTime, j.BatchesPerSecond = cmp.Or(o.steadyTime, j.SteadyTime), cmp.Or(o.batchesPerSecond, j.BatchesPerSecond)
		}
		if j.Waiting > 0 && o.batches > 0 {
			j.Waiting = min(j.Waiting, 10*o.batches)
		}
		out = append(out, e)
	}
	return out
}

func profilePath(dir string, m benchMode, e modeEntry, round int) string {
	if dir == "" {
		return ""
	}
	label := strings.Map(func(r rune) rune {
		if r == ' ' || r == ',' || r == '/' {
			return '-'
		}
		return r
	}, e.label)
	return filepath.Join(dir, fmt.Sprintf("%s-%s-%d.pprof", m.name, label, round))
}
