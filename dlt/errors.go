package dlt

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// The ways in which an attempt can fail. They stand in the middle of clients' errors, and so do
// not begin with the name of this module. Any error that wraps none of the first five is doubt.
var (
	// ErrRejected: the ledger refuses this batch for good.
	ErrRejected = errors.New("batch refused by the ledger")
	// ErrBusy: certainly not accepted, try later.
	ErrBusy = errors.New("ledger busy")
	// ErrUnavailable: certainly not accepted, the ledger was not reached.
	ErrUnavailable = errors.New("ledger unavailable")
	// ErrMisconfigured: certainly not accepted, nor would any other batch be. A person has to
	// act.
	ErrMisconfigured = errors.New("ledger refuses this client")
	// ErrNotYet: certainly not accepted, because this batch cannot be now: an account lacks
	// funds, for example, or the batch's turn has not come, or the ledger's word may mean the
	// batch as well as the set-up of the node. Other batches may be accepted, so only its lane
	// waits.
	ErrNotYet = errors.New("the ledger cannot take this batch yet")
	// ErrDoubt: the outcome is not known.
	ErrDoubt = errors.New("outcome not known")
)

// ErrStreamLost means that a stream of events has ended, or could not be opened. It means
// nothing for any batch: the batches are polled instead.
var ErrStreamLost = errors.New("dltbatch: stream of events lost")

// Error is the error type of clients. errors.Is finds its kind and its cause.
type Error struct {
	Op         string // "submit", "batch statuses", ...
	StatusCode int    // HTTP status; 0 where there was no response
	Code       int    // the ledger's own code; 0 where there was none
	Message    string // bounded and printable; never a payload or a token
	RetryAfter time.Duration
	// Endpoint is the endpoint of the request, without credentials; "" if it is not known.
	Endpoint string
	Kind     error // one of the six above; nil means ErrDoubt
	Err      error // the cause, may be nil
}

// Error implements error.
func (e *Error) Error() string {
	if e == nil { // a client's mistake must not crash the process
		return ErrDoubt.Error()
	}
	s := e.Op + ": " + e.kind().Error()
	if e.StatusCode != 0 {
		s += fmt.Sprintf(": HTTP %d", e.StatusCode)
	}
	if e.Code != 0 {
		s += fmt.Sprintf(": code %d", e.Code)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) kind() error {
	if e == nil || e.Kind == nil {
		return ErrDoubt
	}
	return e.Kind
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e == nil || e.Err == nil {
		return []error{e.kind()}
	}
	return []error{e.kind(), e.Err}
}

// RetryAfter returns how long the ledger asked to be left alone in an error, or 0.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e.RetryAfter
	}
	return 0
}

// Kind classifies the error of a Submit: the one of the five certain kinds that it wraps, else
// doubt. An error that wraps two of them, or one beside [ErrDoubt], is doubt too: one doubtful
// try makes the attempt doubtful.
func Kind(err error) batch.ErrorKind {
	if err == nil {
		return ""
	}
	kind := batch.KindDoubt
	if errors.Is(err, ErrDoubt) {
		return kind
	}
	for _, k := range [...]struct {
		err  error
		kind batch.ErrorKind
	}{
		{ErrRejected, batch.KindRejected},
		{ErrBusy, batch.KindBusy},
		{ErrUnavailable, batch.KindUnavailable},
		{ErrMisconfigured, batch.KindMisconfigured},
		{ErrNotYet, batch.KindNotYet},
	} {
		if !errors.Is(err, k.err) {
			continue
		}
		if kind != batch.KindDoubt {
			return batch.KindDoubt
		}
		kind = k.kind
	}
	return kind
}

// Reason returns the part of a client's error that a record, an event and a log keep: its [Kind],
// and its text without the words of the kind, which would say the same again. It is nil without an
// error.
func Reason(err error) *batch.SubmissionError {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, kind := range []error{ErrRejected, ErrBusy, ErrUnavailable, ErrMisconfigured, ErrNotYet, ErrDoubt} {
		text = strings.ReplaceAll(text, kind.Error()+": ", "")
		if text = strings.TrimSuffix(text, ": "+kind.Error()); text == kind.Error() {
			text = ""
		}
	}
	return &batch.SubmissionError{Kind: Kind(err), Message: batch.Excerpt(text, batch.MaxErrorText)}
}

// At sets the endpoint of an [*Error] that has none yet, and returns err.
func At(endpoint string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e != nil && e.Endpoint == "" {
		e.Endpoint = endpoint
	}
	return err
}
