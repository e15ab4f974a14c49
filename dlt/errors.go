package dlt

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// The kinds of a client's errors. The text of a kind stands in the middle of a client's error, so
// it does not begin with the name of this module. An error that wraps no kind is doubt, too.
// CONTRIBUTING.md says how to add a kind.
var (
	// ErrRejected: the ledger refuses this batch for good.
	ErrRejected = errors.New("batch refused by the ledger")
	// ErrBusy: the ledger certainly did not accept the batch; try again later.
	ErrBusy = errors.New("ledger busy")
	// ErrUnavailable: the ledger certainly did not accept the batch, because it was not reached.
	ErrUnavailable = errors.New("ledger unavailable")
	// ErrMisconfigured: the ledger certainly did not accept the batch, and would not accept any
	// other batch of this client. A person has to act.
	ErrMisconfigured = errors.New("ledger refuses this client")
	// ErrNotYet: the ledger certainly did not accept the batch, because it cannot accept this
	// batch now: an account lacks funds, for example, or the batch's turn has not come, or the
	// ledger's answer may concern the batch as well as the set-up of the node. Other batches may
	// be accepted, so only the lane of this batch waits.
	ErrNotYet = errors.New("the ledger cannot take this batch yet")
	// ErrDoubt: nobody knows whether the ledger accepted the batch.
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
	Kind     error // one of the kinds above; nil means ErrDoubt
	Err      error // the cause, may be nil
}

// Error implements error.
func (e *Error) Error() string {
	if e == nil { // so that a client's nil *Error does not crash the process
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

// RetryAfter returns how long the ledger asks its clients to wait, as err says; 0 if err does not
// say.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e.RetryAfter
	}
	return 0
}

// storedKinds are the kinds of clients' errors, each with the kind that the store keeps.
var storedKinds = [...]struct {
	err        error
	storedKind batch.ErrorKind
}{
	{ErrRejected, batch.KindRejected},
	{ErrBusy, batch.KindBusy},
	{ErrUnavailable, batch.KindUnavailable},
	{ErrMisconfigured, batch.KindMisconfigured},
	{ErrNotYet, batch.KindNotYet},
	{ErrDoubt, batch.KindDoubt},
}

// Kind returns the kind of an error of Submit: the stored form of the one kind that err wraps, for
// example [batch.KindBusy] for [ErrBusy]. An error that wraps no kind, or several, is
// [batch.KindDoubt]: one doubtful try makes the attempt doubtful. Kind returns "" for nil.
func Kind(err error) batch.ErrorKind {
	if err == nil {
		return ""
	}
	kind := batch.KindDoubt
	n := 0
	for _, k := range storedKinds {
		if errors.Is(err, k.err) {
			kind = k.storedKind
			n++
		}
	}
	if n > 1 {
		return batch.KindDoubt
	}
	return kind
}

// Reason returns the part of a client's error that a record, an event and a log keep: the error's
// [Kind], and its text without the text of the kind, which would repeat the kind. Reason returns
// nil for nil.
func Reason(err error) *batch.SubmissionError {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, k := range storedKinds {
		text = strings.ReplaceAll(text, k.err.Error()+": ", "")
		if text = strings.TrimSuffix(text, ": "+k.err.Error()); text == k.err.Error() {
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
