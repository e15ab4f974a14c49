package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

const (
	// statsInterval is the pause between two calls of update, which write the row of this instance
	// and count again if the counts are old enough.
	statsInterval = 15 * time.Second
	// statsJitter keeps instances that began together apart.
	statsJitter = time.Second
	// forgetInstancesAfter is the time after which an instance that died is forgotten, if
	// Options.Retention keeps everything.
	forgetInstancesAfter = 30 * 24 * time.Hour
)

// instancePresence shows this Run to other processes, by a row in the store.
type instancePresence struct {
	store            meteredStore // for calls that are not of a loop
	rowStore         meteredStore // for writes of this instance's own row
	vitals           *vitals
	instance         store.Instance // the fields that do not change
	texts            texts.Presence
	forgetAfter      time.Duration
	health           func() health.Health
	unservedServices func(time.Time) []store.Unserved
	countClaims      func() int
	restFor          func(time.Duration) time.Duration
	restingSince     func() time.Time // since when the Run rests; zero if it does not
	idlePause        time.Duration    // the pause between two writes of the row while nothing is open
	takeFlow         func(time.Time) (store.Flow, bool)
	endedFlows       []endedFlow // used by run only
}

// endedFlow is the flow of a past period, and the end of the period.
type endedFlow struct {
	end time.Time
	store.Flow
}

// newPresence returns nil if the store keeps no stats.
func (r *run) newPresence() *instancePresence {
	if !r.store.Abilities().Has(store.CanKeepTexts | store.CanCountOpen) {
		return nil
	}
	p := &instancePresence{store: r.store, rowStore: r.store, vitals: r.vitals, forgetAfter: r.options.Retention, health: r.health, unservedServices: r.events.UnservedLanes, countClaims: r.table.Unfinished, restFor: r.idlePause, restingSince: r.restingSince, idlePause: max(idleWorkPause, r.options.IdlePause), takeFlow: r.events.TakeFlow}
	p.rowStore.meter = newStoreMeter(r.store.reportCall, r.vitals)
	p.rowStore.ownRow = true
	p.takeFlow(time.Now()) // the flow from before this Run does not count
	if p.forgetAfter <= 0 {
		p.forgetAfter = forgetInstancesAfter
	}
	p.instance = store.Instance{
		ID: rand.Text(), Name: r.options.Instance, Host: r.options.Host, Version: r.options.Version, Ledger: r.ledger.shownName(), Settings: r.options.settings(),
	}
	return p
}

// settings returns the strategy and the options on which instances should agree.
func (o Options) settings() map[string]string {
	return map[string]string{
		"Strategy": o.Strategy.Name, "Strategy.Window": fmt.Sprint(o.Strategy.Window),
		"RequestTimeout": o.RequestTimeout.String(), "ClaimTTL": o.ClaimTTL.String(),
		"Budget": fmt.Sprintf("%+v", o.Budget), "Policy": o.Policy.String(),
		"ResendAtRiskOfExecutingTwice": fmt.Sprint(o.ResendAtRiskOfExecutingTwice),
		"Retention":                    o.Retention.String(), "StuckAfter": o.StuckAfter.String(),
	}
}

// run writes the row and counts until ctx is done. Nothing waits for them, so a failure is only
// reported and shown in Health, and the next call comes soon.
func (p *instancePresence) run(ctx context.Context, timeout time.Duration, trouble func(error)) {
	var looked, shown, counted time.Time
	var wasResting bool // whether the Run rested at the last call, so that the row and the counts say so
	var err error
	for first := true; first || loop.Sleep(ctx, statsInterval+mathrand.N(statsJitter)); first = false {
		rest, now := p.restFor(idleWorkPause), time.Now()
		flowed := p.endStretch(now)
		// If something began and ended since the last read, this read still shows it, and the next
		// read shows that it is over.
		idle := rest > 0 && !flowed && !p.restingSince().After(looked)
		looked = now
		if err == nil && wasResting && idle && now.Sub(shown) < rest {
			continue
		}
		count := err != nil || !wasResting || !idle || now.Sub(counted) >= p.restFor(idleUpkeepPause)
		if shown, wasResting = now, idle; count {
			counted = now
		}
		call, cancel := context.WithTimeout(ctx, max(timeout, store.StatsLimit+time.Second))
		err = p.update(call, rest > 0, count)
		cancel()
		if err != nil && ctx.Err() == nil {
			trouble(err)
		}
	}
}

// update writes the row. If count is true it counts, if that is due, and reads the counts. Only
// the write of the row shows whether the database takes writes: a count may fail because there is
// too much to count.
func (p *instancePresence) update(ctx context.Context, rests, count bool) error {
	row := p.ownRow(ctx)
	if row.Every = statsInterval; rests {
		row.Every = p.idlePause
	}
	kept := p.texts.Show(ctx, p.rowStore, row)
	if !count {
		return kept
	}
	_, counted := texts.Refresh(ctx, p.store, store.RefreshQuery{By: p.instance.Name, Forget: p.forgetAfter})
	s, read := texts.Stats(ctx, p.store)
	if read == nil {
		p.vitals.countsRead(s)
	}
	return errors.Join(kept, counted, read)
}

// endStretch ends a period of the flow, and reports whether anything happened in it. While the row
// is written less often, the periods still have the usual length.
func (p *instancePresence) endStretch(at time.Time) bool {
	f, ok := p.takeFlow(at)
	if !ok {
		return false
	}
	p.endedFlows = append(p.endedFlows[max(0, len(p.endedFlows)-store.MaxFlows+1):], endedFlow{at, f})
	return f.Final+f.Queue.N+f.Flight.N+f.Finality.N > 0
}

// ownRow returns the row of this instance.
func (p *instancePresence) ownRow(ctx context.Context) store.Instance {
	if s, has := p.store.givenStore().(interface {
		Schema(ctx context.Context) (store.Schema, error)
	}); has && p.instance.Schema == 0 {
		if schema, err := s.Schema(ctx); err == nil {
			p.instance.Schema = schema.Want
		}
	}
	i, h, at := p.instance, p.health(), time.Now()
	if s, has := p.store.givenStore().(interface {
		Looked(ctx context.Context) string
	}); has {
		i.Looked = s.Looked(ctx)
	}
	for _, p := range h.Pauses[:min(len(h.Pauses), store.MaxPauses)] {
		shown := store.Pause{Ledger: p.Ledger, Service: p.Service, All: p.All, Kind: p.Kind(), For: at.Sub(p.Since)}
		if e, is := errors.AsType[*batch.SubmissionError](p.Because); is && shown.Kind != batch.KindBusy {
			shown.Why = batch.Excerpt(e.Message, 256)
		}
		i.Pauses = append(i.Pauses, shown)
	}
	for _, s := range p.endedFlows {
		s.Ago = at.Sub(s.end)
		i.Flows = append(i.Flows, s.Flow)
	}
	i.Claims, i.Paused, i.Unserved = p.countClaims(), h.Paused, p.unservedServices(at)
	for _, w := range h.Warnings[:min(len(h.Warnings), store.MaxWarnings)] {
		i.Warnings = append(i.Warnings, batch.Excerpt(w.Error(), 512))
	}
	if !h.WarningsSince.IsZero() {
		i.WarnsFor = at.Sub(h.WarningsSince)
	}
	i.Loops = make(map[string]time.Duration, len(h.Loops))
	for name, l := range h.Loops {
		if !l.LastSuccess.IsZero() {
			i.Loops[name] = at.Sub(l.LastSuccess)
		}
	}
	return i
}

// Closed returns why this Run posts nothing of a service at present, and the kind of answer that
// caused it. The sentence is "" if the Run posts, and if no Run is under way.
func (e *Engine) Closed(s batch.ServiceID) (sentence string, kind batch.ErrorKind) {
	r := e.run.Load()
	if r == nil {
		return "", ""
	}
	why, all := r.submitter.PausedBy(s, r.pauseMemory())
	if why == nil {
		return "", ""
	}
	kind = health.Pause{Because: why}.Kind()
	if h := r.health(); all && h.Paused && kind == h.PausedKind() {
		return incident.NothingPosted(kind), kind
	}
	return incident.LanePostsNothing(kind), kind
}

// removeRow removes the row. A database that does not answer does not delay the stop for long: the
// row then shows when this instance was last seen.
func (p *instancePresence) removeRow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastWritesTime)
	defer cancel()
	return p.texts.End(ctx, p.store)
}

// Stats returns the counts of open batches and orders, and the instances.
func (e *Engine) Stats(ctx context.Context) (store.Stats, error) {
	if lacks := (store.CanKeepTexts | store.CanCountOpen) &^ e.store.Abilities(); lacks != 0 {
		return store.Stats{}, fmt.Errorf("Stats: %w: the store lacks %s", store.ErrUnsupported, lacks)
	}
	return texts.Stats(ctx, e.store)
}
