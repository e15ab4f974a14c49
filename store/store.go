package store

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Store is the part of a store without which no batch is delivered. The author of a store begins
// here: docs/stores.md is the manual, and examples/toystore is such a store in one file. The other
// groups of methods are optional interfaces ([Abilities] lists them, and the loss without each);
// a store that has them all is a [Full] one. All methods may be called concurrently, from any
// number of processes on one database. Methods do not retry: the callers do. Methods do not keep
// the slices passed in; returned slices belong to the caller.
//
// A struct that embeds a Store has these methods and no others, even if the store in it has more.
// To wrap a store with all its abilities, embed [Full]; a wrapper passes Upkeep ([Upkeeper]) and
// AddTx on by methods of its own.
type Store interface {
	// Add stores all batches of the call, or none, in the order of the slice. nil promises
	// that they are durable. Adds of a service that do not overlap keep their order. A batch
	// whose id is stored with the same service and payload counts as stored, and the stored
	// batch stays as it is; with another service or payload the error is [batch.ErrConflict].
	// A batch that a Prune removed and of which it kept a tombstone counts as stored if it was
	// Committed; otherwise the error is a [*batch.EndedError] ([AddedAgain]), and with another
	// service or payload [batch.ErrConflict].
	// A DataChangeID other than "" is the caller's own key, unique in its service for as long
	// as the batch is stored or has a tombstone. Where a stored batch, or an earlier batch that this call stores, has the
	// same key and the same payload, this batch counts as stored, even under another id, and
	// the earlier batch stays; with another payload the error is [batch.ErrConflict], too. Two
	// Adds of one id or one key wait for each other; if the first fails, the second is stored.
	// The trace context is kept with the batch: [Ref].TraceParent. It is no part of what makes two
	// batches the same; the context of the stored batch stays.
	// An invalid batch gives a [*batch.InputError]. Any other error leaves open whether the
	// call was stored: add again, it is harmless. Add does not keep the slice. A store knows
	// no ledger: a Runner's Add and AddTx check whether the ledger can read a batch.
	Add(ctx context.Context, batches ...batch.Batch) error
	// Get returns the record of a batch, open or final, or what its tombstone keeps ([Remains]), or
	// [batch.ErrNotFound].
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	// Lanes lists services that have open batches and are not closed by [Controls], in byte
	// order after q.After: the queuer's rotating scan reads them. It locks nothing.
	Lanes(ctx context.Context, q LanesQuery) ([]batch.ServiceID, error)
	// Claim shows each named lane to choose, and marks the chosen batches Submitting, in one
	// transaction. It skips lanes that another claim holds, and names them in Claimed.Locked.
	// With [Controls] it treats a lane that is paused or halted as empty, and does not ask
	// choose about it. This covers a lane that was paused or halted before the call, and a
	// lane that was halted by the transaction which made a batch final, if choose no longer
	// sees that batch.
	//
	// After an error it may be unknown whether the transaction was committed: the answer to
	// its COMMIT was lost, say. Claimed.Runs are then the claims that it may have made;
	// without Runs it made none. Nobody may post these batches, and nobody else knows of the
	// claims, which would stand until they expire. So the caller puts each back by an outcome
	// Unposted at its Version: a claim that was made and still stands is undone; a claim that
	// was not made is fenced, since no other claim has its version ([ClaimQuery].Salt).
	Claim(ctx context.Context, q ClaimQuery, choose Choose) (Claimed, error)
	// Payloads returns payloads of claimed batches in the order of refs: of the batches whose
	// payloads did not come with the claim. A payload is nil where there is no such batch.
	Payloads(ctx context.Context, refs []Ref) ([][]byte, error)
	// Record applies outcomes of attempts, in groups, each by compare-and-set on its version.
	// An outcome that is fenced or bad fails alone, in its place in the result. In the same
	// transaction a store with [Controls] carries out the lane's policy about batches that
	// Record makes final as Invalid or Rejected ([Applied.Enforce]), and a store with an
	// [Inspector] keeps the reports of attempts ([Outcome.Reported]). Outcomes without either
	// cost no further statement. After an error nothing is known to be applied: call again
	// with the same outcomes, which is harmless.
	Record(ctx context.Context, outcomes []Outcome) ([]Applied, error)
	// Pending selects due rows that the monitor owns (Pending, Valid, unsettled Invalid,
	// Submitting with an expired claim): the row asked about longest ago first, then by order
	// key. It leases them by moving their next check forward, without raising versions. After
	// an error the returned rows may be leased all the same, and nobody else gets them before
	// the lease ends; to ask the ledger about them is harmless, leased or not.
	Pending(ctx context.Context, q PendingQuery) ([]InFlight, error)
	// Checked says when to ask next about rows that stay as they are.
	Checked(ctx context.Context, due []Due) error
}

// Full is a store with all abilities, as the stores of this module are.
type Full interface {
	Store
	FinalReader
	Lister
	Counter
	Pruner
	PreparedKeeper
	WitnessReader
	Ledgers
	Operator
	Controls
	Inspector
	StatsKeeper
	Surveyor
	BulkKeeper
	ActLister
	SummaryKeeper
	Journal
}

// MaxKeys is the number of keys that a driver asks its database for in one statement.
const MaxKeys = 500

// WitnessReach is the number of earlier batches that one Witnesses looks at.
const WitnessReach = 500

// ListQuery selects records; zero fields select all.
type ListQuery struct {
	Service *batch.ServiceID
	States  []batch.State
	// Open selects batches that are not final, in any state.
	Open bool
	// Quarantined selects batches that a policy set aside. The cost grows with their number.
	Quarantined bool
	// OlderThan and NewerThan bound the age, counted from CreatedAt on the database's clock:
	// at least OlderThan, and less than NewerThan. 0 is no bound.
	OlderThan, NewerThan time.Duration
	// Limit is the largest number of records. Defaults to 100, at most 1,000. A page has fewer where
	// they have more than [MaxListReceipts] receipts; its cursor goes on.
	Limit int
	// After goes on from an earlier call's cursor.
	After Cursor
}

// MaxListReceipts is how many receipts the records of one page of a list have at most, beside those of
// its first record: with [MaxReceiptData] this bounds a page in bytes.
const MaxListReceipts = 1000

// Cut returns how many records at the front of a list make one page, where they have these numbers of
// receipts: at most q.Limit, which the store has bounded, and at least one.
func (q ListQuery) Cut(receipts []int64) int {
	var total int64
	for n, count := range receipts {
		if total += count; n > 0 && (n >= q.Limit || total > MaxListReceipts) {
			return n
		}
	}
	return len(receipts)
}

// CountsQuery selects lanes to count; the zero value begins after the service "".
type CountsQuery struct {
	// Service selects this lane only.
	Service *batch.ServiceID
	// After is the last service of the call before; Start says that there was none
	// ("" is a service like any other).
	After batch.ServiceID
	Start bool
	// Limit is how many lanes at most. Defaults to 100, at most 1,000.
	Limit int
	// Cap bounds the count of waiting batches in each lane. Defaults to 1,000, at most
	// 100,000.
	Cap int
}

// Bounded returns the query with its defaults and within its bounds.
func (q CountsQuery) Bounded() CountsQuery {
	q.Limit, q.Cap = bounded(q.Limit, 100, 1000), bounded(q.Cap, 1000, 100_000)
	return q
}

// bounded is n, but at most most, or otherwise where n says nothing.
func bounded(n, otherwise, most int) int {
	if n <= 0 {
		return otherwise
	}
	return min(n, most)
}

// LaneCounts are the open batches of one lane.
type LaneCounts struct {
	Service batch.ServiceID `json:"service"`
	// Attempted counts the open batches that were ever claimed, by state; a state without
	// batches is not in it.
	Attempted map[batch.State]int `json:"attempted"`
	// Waiting counts the open batches that were never claimed.
	// Where it equals the query's Cap there may be more.
	Waiting int `json:"waiting"`
}

// Ref names a stored batch.
type Ref struct {
	Key batch.Key
	// Row is the store's own number for the batch, opaque to callers; 0 where it is not known.
	Row int64
	// Created is when the batch was added, on the database's clock; together with the id it is the
	// batch's order key. It is zero where it is not known. No store needs it to find a batch.
	Created time.Time
	// TraceParent is the trace context that was added with the batch ([batch.Batch].TraceParent);
	// "" without a context, or if it is not known. No store needs it to find a batch. A store puts
	// it into each Ref that it hands out, as it does with Created.
	TraceParent string
}

// PendingQuery asks for due rows.
type PendingQuery struct {
	Limit int           // at most; must be positive
	Lease time.Duration // for so long nobody else gets them; 0 only looks, and writes nothing
	// Services, where it is not nil, selects the rows of these services that the monitor owns,
	// due or not, leased or not; a live claim is never the monitor's. It serves events that a
	// ledger sends by itself. The cost grows with the batches in flight in these services.
	Services []batch.ServiceID
	// Ahead makes a row due, too, whose next check is further away than this: nobody sets one so far
	// ahead, so the database's clock was put back, and the row would wait until it is there again. 0
	// makes no row due. A query with a Lease and without Services also puts claims right that were
	// made by a clock that was ahead ([Row.AsOf]); it does not return their rows.
	Ahead time.Duration
}

// Due reports whether a row is due at now, by the database's clock: the monitor owns it, or its claim
// is to be put right.
func (q PendingQuery) Due(r Row, now time.Time) bool {
	if !r.Monitored(now) {
		return q.Lease != 0 && r.claimAhead(now)
	}
	return !r.NextCheck.After(now) || q.Ahead > 0 && r.NextCheck.After(now.Add(q.Ahead))
}

// InFlight is a row that the monitor asks the ledger about. Ages and times left are durations
// on the database's clock.
type InFlight struct {
	Ref
	Version int64
	State   batch.State
	Attempt int
	Spent   int
	Budget  batch.Budget
	// PostedAgo is the time since the last POST that may have had an effect ended; for an
	// attempt in doubt, the time since its claim expired, which is later.
	PostedAgo time.Duration
	// Age is the time since the batch moved last ([Row].MovedAt); PostedAgo where that is not known.
	Age time.Duration
	// AskedAgo is how long nobody had asked about the batch when this call selected it; 0 where that
	// is not known.
	AskedAgo time.Duration
	// Rollbacks counts executions in a row that the ledger took back. RolledBack says that the
	// last attempt is among them.
	Rollbacks  int
	RolledBack bool
	// Resends counts the POSTs after the first unresolved attempt.
	Resends int
	// ResendLeft is how long a resend stays harmless; negative when it no longer is.
	ResendLeft time.Duration
	// SettleLeft is how long an Invalid may still become Committed.
	SettleLeft time.Duration
	// DoubtAttempt is the first unresolved attempt, claimed DoubtAgo.
	DoubtAttempt int
	DoubtAgo     time.Duration
	Failures     int // certain failures in a row; a doubt ends the row
	// Ended says that the last POST certainly ended: the doubt was recorded. Otherwise the
	// claim has expired on the database's clock, and its request may still be under way if
	// that clock jumped.
	Ended bool
	// ClaimTTL is the duration of the last claim, as its claimer set it; 0 where that is not
	// known: code from before this field made the claim.
	ClaimTTL time.Duration
	// Seen is the endpoint that reported this very attempt as under way; "" for none.
	Seen      string
	Refused   bool   // an error is kept that becomes final once the doubt is resolved
	Requeued  bool   // verdicts from before the requeue may still be reported
	Called    bool   // a person was called since it moved last: see [Row].Called
	Undecided bool   // and about this attempt: see [Row].Undecided
	Prepared  []byte // bytes that KeepPrepared kept, nil for none
	Was       *Row   // for the outcome: [Outcome].Was
	// CheckIn is the time until the row is due (again): Lease, where there is one.
	CheckIn time.Duration
}

// Due says when to ask next.
type Due struct {
	Ref
	In time.Duration
}
