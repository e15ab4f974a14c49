package submit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// prepare asks the ledger for the bytes that must be known before the POST, and keeps them if they
// are more than the claim has. The batch may be posted only if said is true and there is no error.
// said is false if the result is not the ledger's answer: the row has moved on, the store failed,
// or the client failed. The error is never doubt, because no request that could take effect was
// sent. A stop cuts off the request to the ledger, but not the write.
func (s *sender) prepare(ctx context.Context, c *store.Claim, payload []byte, lane [][]byte, until time.Time) (kept []byte, said bool, err error) {
	kept, said, err = s.askToPrepare(ctx, *c, payload, lane, until)
	switch {
	case err != nil:
		return nil, said, err
	case len(kept) > dlt.MaxPrepared:
		return nil, false, &dlt.Error{Op: opPrepare, Kind: dlt.ErrMisconfigured, Message: fmt.Sprintf("%d bytes, more than %d", len(kept), dlt.MaxPrepared)}
	case !bytes.HasPrefix(kept, c.Prepared):
		return nil, false, &dlt.Error{Op: opPrepare, Kind: dlt.ErrMisconfigured, Message: fmt.Sprintf("%d bytes that do not begin with the %d that are kept", len(kept), len(c.Prepared))}
	case len(kept) == len(c.Prepared): // nothing new is to be kept
		return c.Prepared, said, nil
	}
	c.Was = nil // the prepared bytes will be part of the row, and Was does not have them
	// A stop does not cut the write off, because it would not be known whether the bytes were
	// written.
	ctx, cancel := s.requestContext(context.WithoutCancel(ctx), until)
	defer cancel()
	did, err := s.options.Keep(ctx, store.Prepared{Ref: c.Ref, Version: c.Version, Was: c.Prepared, Bytes: kept})
	if err != nil {
		return nil, false, &dlt.Error{Op: "keep prepared bytes", Kind: dlt.ErrUnavailable, Err: &plainError{text: err.Error()}}
	}
	return kept, did, nil
}

const opPrepare = "prepare"

// mustPrepare reports whether a claim is prepared before its POST: if its row keeps no bytes, and
// before each POST if the traits have Renews.
func (s *sender) mustPrepare(c store.Claim) bool {
	t := s.ledger.Traits(c.Key.Service)
	return t.Prepares && (c.Prepared == nil || t.Renews)
}

func (s *sender) askToPrepare(ctx context.Context, c store.Claim, payload []byte, lane [][]byte, until time.Time) (out []byte, said bool, err error) {
	ctx, cancel := s.requestContext(ctx, until)
	defer cancel()
	out, err = s.ledger.Prepare(ctx, batch.Attempt{Key: c.Key, Number: c.Attempt, Payload: payload, Prepared: bytes.Clone(c.Prepared), Lane: lane, Withdrawn: c.Withdrawn})
	if loop.Panicked(err) {
		return nil, false, &dlt.Error{Op: opPrepare, Kind: dlt.ErrUnavailable, Err: &plainError{text: "ledger client: " + err.Error()}}
	}
	if err != nil {
		return nil, true, withoutDoubt(err)
	}
	return bytes.Clone(out), true, nil
}

// withoutDoubt turns a doubt into ErrUnavailable: nothing was posted yet, so nothing can take
// effect. It returns other errors unchanged.
func withoutDoubt(err error) error {
	kind, text, after := dlt.Kind(err), err.Error(), dlt.RetryAfter(err)
	if kind != batch.KindDoubt {
		return err
	}
	return &dlt.Error{
		Op: opPrepare, Kind: dlt.ErrUnavailable, RetryAfter: after,
		Err: &plainError{text: text, timedOut: errors.Is(err, context.DeadlineExceeded)},
	}
}

// plainError has an error's text, and whether it was a timeout. It drops the kind, which would be
// about a POST.
type plainError struct {
	text     string
	timedOut bool
}

func (s *plainError) Error() string { return s.text }

// Is implements errors.Is.
func (s *plainError) Is(target error) bool { return s.timedOut && target == context.DeadlineExceeded }

// runPrepared returns the prepared bytes of a run's batches. The caller updates them as the run
// goes on. It is nil if the ledger does not prepare a batch by those before it.
func (s *sender) runPrepared(r run) [][]byte {
	if !s.ledger.Traits(r.Service).PreparesInOrder {
		return nil
	}
	own := make([][]byte, len(r.Batches))
	for i, c := range r.Batches {
		own[i] = c.Prepared
	}
	return own
}

// lanePrepared returns the prepared bytes of all batches of a lane except the i-th of a run. own
// has those of the run ([sender.runPrepared]).
func lanePrepared(r run, own [][]byte, i int) (all [][]byte) {
	if own == nil {
		return nil
	}
	for _, b := range r.Prepared {
		all = append(all, bytes.Clone(b))
	}
	for j, b := range own {
		if j != i && len(b) > 0 {
			all = append(all, bytes.Clone(b))
		}
	}
	return all
}
