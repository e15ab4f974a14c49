package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// watchedLedger is the ledger as a loop uses it: it records how each call went.
type watchedLedger struct {
	dlt.Ledger
	m meter
}

// ledgerMeter returns the meter of calls to the ledger. A refusal of a batch, for good or for now, and busy
// count as answers.
func ledgerMeter(to calls, v *vitals) meter {
	return meter{part: "ledger", calls: to, v: v, whole: &v.ledger, answers: func(err error) bool {
		switch dlt.Kind(err) {
		case batch.KindRejected, batch.KindBusy, batch.KindNotYet:
			return true
		}
		return false
	}}
}

// asked runs a call to the ledger, about n batches.
func (m meter) asked(ctx context.Context, loop, op string, n int, f func() error) error {
	return m.call(ctx, loop, op, &n, nil, f)
}

func (w watchedLedger) Submit(ctx context.Context, a batch.Attempt) error {
	return w.m.v.took(w.m.asked(ctx, "submitter", "submit", 1, func() error { return w.Ledger.Submit(ctx, a) }))
}

// took passes on the error of a POST, and keeps when the ledger last took a batch.
func (v *vitals) took(err error) error {
	if err == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.accepted = time.Now()
	}
	return err
}

func (w watchedLedger) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, err error) {
	err = w.m.asked(ctx, "statuses", "statuses", len(attempts), func() (err error) {
		all, err = w.Ledger.BatchStatuses(ctx, s, attempts)
		return err
	})
	return all, err
}

func (w watchedLedger) SubmitList(ctx context.Context, list []batch.Attempt) error {
	return w.m.v.took(w.m.asked(ctx, "submitter", "submit_list", len(list), func() error { return w.Ledger.SubmitList(ctx, list) }))
}

func (w watchedLedger) Prepare(ctx context.Context, a batch.Attempt) (out []byte, err error) {
	err = w.m.asked(ctx, "submitter", "prepare", 1, func() (err error) {
		out, err = w.Ledger.Prepare(ctx, a)
		return err
	})
	return out, err
}

func (w watchedLedger) Resolve(ctx context.Context, d dlt.Doubt) (e dlt.Evidence, err error) {
	err = w.m.asked(ctx, "statuses", "resolve", 1, func() (err error) {
		e, err = w.Ledger.Resolve(ctx, d)
		return err
	})
	return e, err
}

// stream is one stream of events, across all its connections.
type stream struct {
	done     <-chan struct{} // closed when nobody follows the stream any more
	received time.Time       // time of the last event
	lost     time.Time       // zero while events come, and before the first event or failure
	n        int             // connections lost since the last event
	err      error
}

func (s *stream) look() health.PartHealth {
	h := health.PartHealth{LastSuccess: s.received}
	switch {
	case !s.lost.IsZero():
		h.Condition, h.FailingSince, h.Failures, h.Err = health.ConditionFailing, s.lost, s.n, s.err
	case !s.received.IsZero():
		h.Condition = health.ConditionOK
	}
	return h
}

// Events is one connection. Its error always means that the stream is lost: it means nothing
// for the outcome of any batch.
func (w watchedLedger) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	st := w.m.v.stream(ctx, services)
	err := loop.Contain(func() error {
		return w.Ledger.Events(ctx, services, func(e dlt.Event) error {
			w.m.v.received(st)
			return yield(e)
		})
	})
	if ctx.Err() != nil {
		return err
	}
	err = streamLost(err)
	w.m.v.lost(st, err)
	return err
}

// stream returns the stream of a connection. Connections of one stream share a context, which
// is done when nobody follows the stream any more.
func (v *vitals) stream(ctx context.Context, services []batch.ServiceID) *stream {
	var key batch.ServiceID // "" for the stream of a whole ledger
	if len(services) > 0 {
		key = services[0]
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	st := v.streams[key]
	if st == nil || st.done != ctx.Done() {
		st = &stream{done: ctx.Done()}
		v.streams[key] = st
		context.AfterFunc(ctx, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			if v.streams[key] == st {
				delete(v.streams, key)
			}
		})
	}
	return st
}

func (v *vitals) received(st *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	st.received = time.Now()
	st.lost, st.n, st.err = time.Time{}, 0, nil
}

func (v *vitals) lost(st *stream, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if st.n++; st.lost.IsZero() {
		st.lost = time.Now()
	}
	st.err = err
}

// streamLost turns a connection's error into ErrStreamLost. Clients report any error that they
// cannot classify as doubt, which makes sense for submissions only.
func streamLost(err error) error {
	if err == nil {
		return dlt.ErrStreamLost
	}
	if e, ok := errors.AsType[*dlt.Error](err); ok && e != nil && dlt.Kind(e) == batch.KindDoubt {
		lost := *e
		lost.Kind = dlt.ErrStreamLost
		return &lost
	}
	return fmt.Errorf("%w: %w", dlt.ErrStreamLost, err)
}
