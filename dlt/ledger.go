package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// MaxPrepared is the largest result of [Ledger].Prepare, in bytes.
const MaxPrepared = 4096

// Ledger is the interface of a client. All methods may be called concurrently. A client never
// retries and never resends by itself: the engine does, and it counts every attempt beforehand.
//
// A client begins with three methods: Submit, BatchStatuses and Traits. It embeds [Unimplemented]
// for the others, and its Traits declare those that it has: the engine calls no method that the
// traits of a service deny. The test suite dlt/dlttest finds each method that is declared but
// missing, and each that is implemented but not declared. A wrapper is a struct that embeds the
// Ledger. A wrapper of Submit also wraps SubmitList, or sets Traits.MaxList to 1: otherwise the
// wrapper does not see the batches of a list.
type Ledger interface {
	Submitter
	BatchStatusReader

	// Traits returns the properties that the engine relies on for a service. Traits is pure and
	// quick. Its answer for a service never changes for the same client: a Run asks once for each
	// service, unless the answer says Routed.
	Traits(service batch.ServiceID) Traits

	// SubmitList makes one attempt of each batch in one request: at least two batches, of one
	// service, in their order. Traits.MaxList above 1 declares it. It is for ledgers that accept
	// such a list as a whole or not at all. If a ledger may accept a part, as Splinter may
	// (docs/ledgers/splinter.md#submitting), its client must send one batch at a time.
	//
	// nil means that the ledger has accepted all batches of the list. errors.Is distinguishes the
	// failures, each of which concerns the whole list:
	//
	//	ErrRejected       no batch is accepted, and this list never will be: because of one
	//	                  batch, its size or its length, for example. Each may be sent alone
	//	ErrNotYet         no batch is accepted, and this list cannot be accepted now: because
	//	                  of one batch, for example. Each may be sent alone
	//	ErrBusy, ErrUnavailable, ErrMisconfigured
	//	                  certainly no batch is accepted, as with Submit
	//
	// Any other error is doubt about each batch. SubmitList returns soon after ctx is done and
	// keeps neither list nor payloads.
	SubmitList(ctx context.Context, list []batch.Attempt) error

	// Prepare returns bytes that the client must know before it posts a batch, to find the batch's
	// outcome later, also after a crash: on Canton the offset from which completions are read, and
	// where the client itself chooses the bytes that are sent, all bytes that it has ever sent.
	// Traits.Prepares declares it.
	//
	// Prepare is called after the claim and before the first POST of a batch. The engine stores
	// the result, at most [MaxPrepared] bytes, with the claim's version, and posts nothing unless
	// that write was applied. From then on every Submit and BatchStatuses, also of later attempts,
	// has the bytes in batch.Attempt.Prepared. An empty or nil result stores nothing: the batch is
	// posted, and Prepare is called again before its next attempt. More than [MaxPrepared] bytes
	// count as ErrMisconfigured.
	//
	// Once bytes are stored, Prepare is called again only where Traits.Renews is true: before each
	// later attempt, with the stored bytes in a.Prepared. It returns these bytes unchanged, or
	// with more bytes appended, which the engine stores in the same way before it posts. Stored
	// bytes are neither changed nor removed until the batch is final or the ledger reports
	// batch.ReportedVoid, because something may have been sent with them. A result that does not
	// begin with the stored bytes counts as ErrMisconfigured.
	//
	// Prepare sends nothing that takes effect, so its error is never doubt: errors.Is finds
	// ErrRejected, ErrBusy, ErrMisconfigured or ErrNotYet, and any other error counts as
	// ErrUnavailable. After an error nothing is posted. Prepare must not keep any part of a.
	Prepare(ctx context.Context, a batch.Attempt) ([]byte, error)

	// Resolve proves the outcome of an attempt in doubt. Traits.Resolves declares it. It is called
	// only after Traits.LateArrival. NotCommitted means that the attempt, and every unresolved
	// attempt before it, can no longer take effect. Resolve must not keep d.Payload or
	// d.Witnesses.
	//
	// An attempt is posted only once Traits.LateArrival has passed since the end of each
	// unresolved attempt before it. So when the ledger accepted an attempt, no earlier attempt was
	// still on its way to the ledger. (The exception: a person has declared the earlier attempts
	// not committed.)
	Resolve(ctx context.Context, d Doubt) (Evidence, error)

	// Events opens one stream of the ledger's events (docs/glossary.md#dlt-polling-monitor, the
	// event monitor) and passes them to yield, an event with Live first. Traits.Streams declares
	// it. The engine also polls, but less often than without a stream: a missing event costs time
	// and nothing else.
	//
	// Events returns nil when ctx is done, yield's error when yield fails, and any other error
	// when the stream breaks. It does not reconnect: the caller calls Events again, after a pause.
	// If Traits.GroupsByService is set, services has one element. Otherwise it has at least one of
	// the services whose events are wanted, all with one Traits.Name. Events may be called
	// concurrently for different services. It must not keep or change Statuses that it has
	// yielded.
	Events(ctx context.Context, services []batch.ServiceID, yield func(Event) error) error

	// Check is the local check before a batch is added. Traits.Checks declares it. Check returns a
	// [*batch.InputError] for a batch that the ledger would refuse or fail to process, and nil for
	// any other batch. Check is pure.
	Check(b batch.Batch) error
}

// Submitter sends batches.
type Submitter interface {
	// Submit makes one attempt. It returns nil once the ledger has accepted the batch for
	// processing. errors.Is distinguishes the failures:
	//
	//	ErrRejected       this batch is refused for good
	//	ErrBusy           certainly not accepted, try later ([Error].RetryAfter may say when)
	//	ErrUnavailable    certainly not accepted: connection refused, no route
	//	ErrMisconfigured  certainly not accepted, and any other batch would be refused, too
	//	ErrNotYet         certainly not accepted: try this batch later; other batches may be
	//	                  accepted
	//
	// Any other error, also after ctx is done, is doubt: the attempt may have taken effect or may
	// still do so. An error of any type is enough; an [*Error] adds facts such as RetryAfter and
	// the endpoint. Submit returns soon after ctx is done and must not keep a.Payload.
	Submit(ctx context.Context, a batch.Attempt) error
}

// BatchStatusReader reads the outcomes of batches (docs/glossary.md#dlt-polling-monitor).
type BatchStatusReader interface {
	// BatchStatuses asks about attempts of one service, or of any services if
	// Traits.GroupsByService is false. It gets at most Traits.MaxIDsPerQuery attempts, without
	// payloads, and must not keep the slice. Answers come in any order and are matched by id; the
	// caller asks again about missing answers. If only some answers came, both results are set. A
	// status text that the client does not know is an error, never a status.
	BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error)
}
