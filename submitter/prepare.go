package submitter

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

// prepare asks the ledger for the bytes that must be known before the first POST, and keeps
// them. The batch may be posted only if said is true and there is no error. said is false
// where the result is not the ledger's word: the row has moved on, the store failed, or the
// client did. The error is never doubt: no request that could take effect was sent. A stop
// cuts off the ledger's answer, but not the write.
func (s *sender) prepare(ctx context.Context, c store.Claim, payload []byte, until time.Time) (kept []byte, said bool, err error) {
	kept, said, err = s.askToPrepare(ctx, c, payload, until)
	if err != nil || len(kept) == 0 { // no bytes need no keeping
		return nil, said, err
	}
	if len(kept) > dlt.MaxPrepared {
		return nil, false, &dlt.Error{Op: opPrepare, Kind: dlt.ErrMisconfigured, Message: fmt.Sprintf("%d bytes, more than %d", len(kept), dlt.MaxPrepared)}
	}
	// A stop does not cut this off: whether it was written would not be known.
	ctx, cancel := s.bounded(context.WithoutCancel(ctx), until)
	defer cancel()
	var did bool
	failed := loop.Contain(func() (err error) {
		did, err = s.o.Keep(ctx, store.Prepared{Ref: c.Ref, Version: c.Version, Bytes: kept})
		return err
	})
	if failed != nil {
		return nil, false, &dlt.Error{Op: "keep what was prepared", Kind: dlt.ErrUnavailable, Err: &saying{text: failed.Error()}}
	}
	return kept, did, nil
}

const opPrepare = "prepare"

// prepares reports whether batches of a service are prepared before their first POST.
func (s *sender) prepares(service batch.ServiceID) bool {
	return s.o.Preparer != nil && s.ledger.Traits(service).Prepares
}

func (s *sender) askToPrepare(ctx context.Context, c store.Claim, payload []byte, until time.Time) (out []byte, said bool, err error) {
	ctx, cancel := s.bounded(ctx, until)
	defer cancel()
	panicked := loop.Contain(func() error {
		b := batch.Batch{ID: c.Key.ID, Service: c.Key.Service, Payload: payload, Budget: c.Budget}
		if out, err = s.o.Preparer.Prepare(ctx, b); err != nil {
			out, err = nil, certain(err)
		}
		out = bytes.Clone(out)
		return nil
	})
	if panicked != nil {
		return nil, false, &dlt.Error{Op: opPrepare, Kind: dlt.ErrUnavailable, Err: &saying{text: "ledger client: " + panicked.Error()}}
	}
	return out, true, err
}

// certain makes ErrUnavailable of a doubt: nothing was posted yet, so nothing can take effect. Other
// errors stay as they are. It calls err's methods, which are the client's code.
func certain(err error) error {
	kind, text, after := dlt.Kind(err), err.Error(), retryAfter(err)
	if kind != batch.KindDoubt {
		return err
	}
	return &dlt.Error{
		Op: opPrepare, Kind: dlt.ErrUnavailable, RetryAfter: after,
		Err: &saying{text: text, late: errors.Is(err, context.DeadlineExceeded)},
	}
}

// saying is an error reduced to its text and whether it was a timeout: its kind would speak of
// a POST.
type saying struct {
	text string
	late bool
}

func (s *saying) Error() string { return s.text }

// Is implements errors.Is.
func (s *saying) Is(target error) bool { return s.late && target == context.DeadlineExceeded }
