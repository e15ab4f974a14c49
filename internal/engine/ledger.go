package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// ledger is the ledger for the engine. In a Run, a call passes the admission first, which may
// refuse it. Then the meter makes the call, and contains a panic of the client. The admission
// looks at the service before each call, because a batch is posted some time after its claim, and
// is asked about from memory without a call of Pending.
type ledger struct {
	dlt.Ledger
	*services
	meter     // set in a Run only
	admission *admission
}

// newLedgerMeter returns the meter of calls to the ledger; its method at makes it the meter of one
// ledger of several. Busy, and a refusal of a batch for good or for now, count as answers.
func newLedgerMeter(to callReporter, v *vitals) meter {
	return meter{partName: "ledger", reportCall: to, vitals: v, isAnswer: func(err error) bool {
		switch dlt.Kind(err) {
		case batch.KindRejected, batch.KindBusy, batch.KindNotYet:
			return true
		}
		return false
	}}
}

// Traits returns the traits of a service, as its terms have them.
func (l ledger) Traits(s batch.ServiceID) dlt.Traits { return l.termsOf(s).Traits }

// names returns the names of all ledgers for which the client stands. It is nil if the client
// stands for several and does not name them.
func (l ledger) names() []string {
	switch t := l.Traits(""); {
	case t.Ledgers != "":
		return strings.Split(t.Ledgers, "\n")
	case t.Routed:
		return nil
	default:
		return []string{t.Name}
	}
}

// shownName returns the name of the ledger as people read it, or the names of all.
func (l ledger) shownName() string {
	return batch.Excerpt(cmp.Or(strings.Join(l.names(), ", "), l.Traits("").Name), 512)
}

// meterOf returns the meter of calls about a service: each ledger has a health of its own.
func (l ledger) meterOf(s batch.ServiceID) meter {
	m := l.meter
	if m.vitals != nil {
		m.ledger = l.Traits(s).Name
		m.wholePart = m.vitals.ledgerOf(m.ledger)
	}
	return m
}

// Check returns the result of the client's local check, if the traits declare one.
func (l ledger) Check(b batch.Batch) error {
	if !l.termsOf(b.Service).Checks {
		return nil
	}
	return loop.Contain(func() error { return l.Ledger.Check(b) })
}

func (l ledger) Submit(ctx context.Context, a batch.Attempt) error {
	return l.post(ctx, "submit", a.Service, 1, func() error { return l.Ledger.Submit(ctx, a) })
}

func (l ledger) SubmitList(ctx context.Context, list []batch.Attempt) error {
	return l.post(ctx, "submit_list", list[0].Service, len(list), func() error { return l.Ledger.SubmitList(ctx, list) })
}

// post makes a request that posts n batches of a service. A panic is a doubt about each of them,
// and is reported, because nothing else would show it.
func (l ledger) post(ctx context.Context, op string, s batch.ServiceID, n int, f func() error) error {
	if err := l.admission.movedError("submit", s); err != nil {
		return err
	}
	err := l.meterOf(s).call(ctx, "submitter", op, &n, nil, f)
	if loop.Panicked(err) {
		l.onTrouble(err)
		return &dlt.Error{Op: "submit", Kind: dlt.ErrDoubt, Err: err}
	}
	if err == nil {
		l.vitals.batchAccepted()
	}
	return err
}

// Prepare refuses if the service's ledger has changed since the claim: bytes of another ledger
// would be kept with the batch.
func (l ledger) Prepare(ctx context.Context, a batch.Attempt) (out []byte, err error) {
	if err := l.admission.movedError("prepare", a.Service); err != nil {
		return nil, err
	}
	n := 1
	err = l.meterOf(a.Service).call(ctx, "submitter", "prepare", &n, nil, func() (err error) {
		out, err = l.Ledger.Prepare(ctx, a)
		return err
	})
	return out, err
}

// BatchStatuses asks only about batches that no other ledger has, and returns no answer about the
// rest.
func (l ledger) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) (all []batch.Status, err error) {
	services := make([]batch.ServiceID, len(attempts))
	for i, a := range attempts {
		services[i] = a.Service
	}
	if err := l.admission.judge(ctx, services); err != nil {
		return nil, err
	}
	mine := slices.DeleteFunc(slices.Clone(attempts), func(a batch.Attempt) bool { return l.admission.ownedByOther(a.Service) })
	n := len(mine)
	if n == 0 {
		return nil, nil // an error would keep the monitor from asking about other services
	}
	err = l.meterOf(mine[0].Service).call(ctx, "statuses", "statuses", &n, nil, func() (err error) {
		all, err = l.Ledger.BatchStatuses(ctx, s, mine)
		return err
	})
	return all, err
}

// Resolve does not ask the ledger about a batch of another ledger, because its records prove
// nothing about that batch.
func (l ledger) Resolve(ctx context.Context, d dlt.Doubt) (e dlt.Evidence, err error) {
	if err := l.admission.judge(ctx, []batch.ServiceID{d.Service}); err != nil {
		return dlt.CannotTell, err
	}
	if l.admission.ownedByOther(d.Service) {
		return dlt.CannotTell, ErrOtherLedger
	}
	n := 1
	err = l.meterOf(d.Service).call(ctx, "statuses", "resolve", &n, nil, func() (err error) {
		e, err = l.Ledger.Resolve(ctx, d)
		return err
	})
	return e, err
}

// Events runs one connection of a stream. The meter does not count it. Its error always means that
// the stream is lost, and nothing about any batch.
func (l ledger) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	st := l.vitals.streamOf(ctx, services)
	err := loop.Contain(func() error {
		err := l.Ledger.Events(ctx, services, func(e dlt.Event) error {
			l.vitals.streamReceived(st)
			return yield(e)
		})
		if ctx.Err() == nil { // the methods of the error are the client's code, too
			err = streamLost(err)
			_ = err.Error()
		}
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	if !errors.Is(err, dlt.ErrStreamLost) { // a panic
		err = streamLost(err)
	}
	l.vitals.streamLost(st, err)
	return err
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
