package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	pgxdriver "github.com/jackc/pgx/v5"

	"github.com/dltbatch/dltbatch/internal/pgtest"
)

// measure runs the chosen modes and prints the figures of each.
func measure(ctx context.Context, o options, out io.Writer) (err error) {
	chosen, err := o.chosenModes()
	if err != nil {
		return err
	}
	// The server is durable, as a user's server is, and has default settings except shared_buffers
	// and its address.
	dsn, stop, err := pgtest.Serve("shared_buffers=128MB")
	if err != nil {
		return err
	}
	defer stop()
	dsn, drop, err := ownDatabase(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	behind := ""
	if needsStore(chosen, storeBouncer) {
		var end func()
		if behind, end, err = pgtest.ServeBouncer(dsn); err != nil {
			return err
		}
		defer end()
	}
	ledger, err := startLedger(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if e := ledger.stop(); err == nil && ctx.Err() == nil {
			err = e
		}
	}()
	dir, err := os.MkdirTemp("", "dltbatch-yard-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pid, about, err := aboutServer(ctx, dsn)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, about)
	p, err := o.loadPageFigures()
	if err != nil {
		return err
	}
	y := &measurement{options: o, out: out, commonJob: job{DSN: dsn, Bouncer: behind, Dir: dir, Ledger: ledger.url, LedgerPID: ledger.pid, PostgresPID: pid}}
	for _, m := range chosen {
		f, err := y.runMode(ctx, m)
		if err != nil {
			return fmt.Errorf("mode %s: %w", m.name, err)
		}
		f.Machine, f.Date = aboutMachine(about), time.Now().UTC()
		if _, err := io.WriteString(out, f.text()); err != nil {
			return err
		}
		p.setFigures(f)
		if o.pagePath == "" {
			continue
		}
		if err := p.save(o.pagePath); err != nil { // saved at once, because the next mode may fail, or be stopped
			return err
		}
	}
	return nil
}

// needsStore reports whether an entry of the modes uses a store.
func needsStore(all []benchMode, store string) bool {
	return slices.ContainsFunc(all, func(m benchMode) bool {
		return slices.ContainsFunc(m.entries, func(e modeEntry) bool { return e.job.Store == store })
	})
}

// aboutServer finds the first process of the server, if the server is on this machine, and
// describes its durability.
func aboutServer(ctx context.Context, dsn string) (pid int, about string, err error) {
	c, err := pgxdriver.Connect(ctx, dsn)
	if err != nil {
		return 0, "", err
	}
	defer c.Close(ctx)
	var backend int
	var local bool
	err = c.QueryRow(ctx, `SELECT pg_backend_pid(), coalesce(inet_server_addr() = inet_client_addr(), true),
		format('PostgreSQL %s, fsync %s, synchronous_commit %s', current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'))`).
		Scan(&backend, &local, &about)
	if err != nil || !local {
		return 0, about, err
	}
	p, err := readProcess(backend)
	if err != nil {
		return 0, about, nil //nolint:nilerr // the server is in a container of its own, so its CPU cannot be measured
	}
	return p.parent, about, nil
}

type measurement struct {
	options   options
	out       io.Writer
	commonJob job
	lastSeed  uint64
}

// runMode runs the entries of a mode in turns. In each round another entry is first.
func (y *measurement) runMode(ctx context.Context, m benchMode) (modeFigures, error) {
	f := modeFigures{Mode: m.name, Title: m.title}
	for _, e := range m.entries {
		f.Entries = append(f.Entries, entryFigures{Label: e.label})
	}
	rounds := y.options.rounds
	if j := m.entries[0].job; j.SteadyTime > 0 {
		rounds = min(rounds, heldRounds)
		f.Title += fmt.Sprintf("; %.0f/s for %s", j.BatchesPerSecond, j.SteadyTime)
	}
	for round := range rounds {
		for k := range m.entries {
			i := (k + round) % len(m.entries)
			r, err := y.runEntry(ctx, m, i, round)
			if err != nil {
				return f, fmt.Errorf("%s: %w", m.entries[i].label, err)
			}
			f.Entries[i].add(r)
			if r.Post50 > 0 {
				fmt.Fprintf(y.out, "%s %d/%d  %-40s POST p50 %7.1f ms, p99 %7.1f  answer p50 %7.1f, p99 %7.1f\n",
					m.name, round+1, rounds, m.entries[i].label, r.Post50, r.Post99, r.Answer50, r.Answer99)
				continue
			}
			fmt.Fprintf(y.out, "%s %d/%d  %-28s %8.0f/s  p50 %7.1f ms  p99 %7.1f ms  cores: client %.2f, postgres %.2f, ledger %.2f; %.0f us a batch\n",
				m.name, round+1, rounds, m.entries[i].label, r.Rate, r.P50, r.P99, r.CPU.Client, r.CPU.Postgres, r.CPU.Ledger, r.workMicroseconds())
		}
	}
	return f, nil
}

func (y *measurement) runEntry(ctx context.Context, m benchMode, i, round int) (r result, err error) {
	e := m.entries[i]
	j := e.job
	j.DSN, j.Bouncer, j.Dir, j.Ledger, j.LedgerPID, j.PostgresPID = y.commonJob.DSN, y.commonJob.Bouncer, y.commonJob.Dir, y.commonJob.Ledger, y.commonJob.LedgerPID, y.commonJob.PostgresPID
	j.Profile = profilePath(y.options.profileFolder, m, e, round)
	y.lastSeed += 1 << 32
	j.Seed = y.lastSeed + uint64(time.Now().UnixNano())
	ctx, stop := context.WithTimeout(ctx, y.options.runTimeout+2*j.SteadyTime)
	defer stop()
	if j.Waiting > 0 {
		l := j
		l.Contender = contenderLoader
		if _, err := runInChild(ctx, l); err != nil {
			return r, err
		}
	}
	return runInChild(ctx, j)
}
