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
	flag.StringVar(&o.modes, "mode", "all", "modes, by comma; all; an empty one to make the page anew from its figures; or of "+strings.Join(names(), ", "))
	flag.StringVar(&o.only, "only", "", "contenders, by comma: ours, floor, river; none is all")
	flag.IntVar(&o.n, "n", 0, "batches; 0 is the mode's own number")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds, in each of which every contender runs once")
	flag.DurationVar(&o.hold, "hold", 0, "how long mode held goes on; 0 is its own time, of 2 minutes")
	flag.Float64Var(&o.pace, "pace", 0, "batches a second of mode held; 0 is its own pace, of 2,000")
	flag.DurationVar(&o.limit, "limit", 10*time.Minute, "how long one run may take")
	flag.StringVar(&o.profile, "cpuprofile", "", "folder for CPU profiles of every run")
	flag.StringVar(&o.docs, "docs", "", "page whose figures, with a plot beside it, are made anew")
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

func names() (all []string) {
	for _, m := range modes() {
		all = append(all, m.name)
	}
	return all
}

// options are the values of the flags.
type options struct {
	modes, only   string
	n, rounds     int
	limit, hold   time.Duration
	pace          float64
	profile, docs string
}

// page loads the figures that the page has so far.
func (o options) page() (page, error) {
	if o.docs == "" {
		return page{}, nil
	}
	return loadPage(o.docs)
}

// remakePage writes the page again from its figures.
func (o options) remakePage() error {
	p, err := loadPage(o.docs)
	if err != nil {
		return err
	}
	return p.save(o.docs)
}

// chosenModes returns the modes to run, as changed by the flags.
func (o options) chosenModes() ([]mode, error) {
	// The flags -hold and -pace are allowed, because the page shows their values with the figures.
	if o.docs != "" && (o.only != "" || o.n > 0) {
		return nil, fmt.Errorf("-docs %s: want no flag beside it that changes what is measured", o.docs)
	}
	all := modes()
	known := names()
	var out []mode
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
		out[i].entries = o.change(out[i].entries)
		if len(out[i].entries) == 0 {
			return nil, fmt.Errorf("-only %q leaves nothing of mode %s", o.only, out[i].name)
		}
	}
	return out, nil
}

func (o options) change(entries []entry) (out []entry) {
	for _, e := range entries {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), e.job.Contender) {
			continue
		}
		j := &e.job
		j.N, j.Lanes = cmp.Or(o.n, j.N, defaultN), cmp.Or(j.Lanes, defaultLanes)
		if j.Hold > 0 {
			j.Hold, j.Pace = cmp.Or(o.hold, j.Hold), cmp.Or(o.pace, j.Pace)
		}
		if j.Waiting > 0 && o.n > 0 {
			j.Waiting = min(j.Waiting, 10*o.n)
		}
		out = append(out, e)
	}
	return out
}

func profileOf(dir string, m mode, e entry, round int) string {
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
