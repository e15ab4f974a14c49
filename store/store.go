package store

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Store is the interface that a driver implements. All methods may be called concurrently,
// from any number of processes on one database.
type Store interface {
	BatchStore
	Engine
	Operator
	Controls
	Inspector
	Journal
}

// BatchStore is the application's half.
type BatchStore interface {
	// Add stores all batches of the call, or none, in the order of the slice. nil promises
	// that they are durable. Adds of a service that do not overlap keep their order. A batch
	// whose id is stored with the same service and payload counts as stored, and the stored
	// batch stays as it is; with another service or payload the error is [batch.ErrConflict].
	// A DataChangeID other than "" is the caller's own key, unique in its service for as long
	// as the batch is stored. Where a stored batch, or an earlier batch of the call, has the
	// same key and the same payload, this batch counts as stored, even under another id, and
	// the earlier batch stays; with another payload the error is [batch.ErrConflict], too. Two
	// Adds of one id or one key wait for each other; if the first fails, the second is stored.
	// An invalid batch gives a [*batch.InputError]. Any other error leaves open whether the
	// call was stored: add again, it is harmless. Add does not keep the slice. A store knows
	// no ledger: a Runner's Add and AddTx check whether the ledger can read a batch.
	Add(ctx context.Context, batches ...batch.Batch) error
	// Get returns the record of a batch, open or final, or [batch.ErrNotFound].
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	// List returns records in the order of (CreatedAt, ID) and the cursor for the next call,
	// "" at the end. It is for people and tools, not for hot paths.
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)
	// Finals returns the records of all keys whose batches are final, and separately the keys
	// that are not stored; the other batches are open. The order is any; each key comes once,
	// even if keys repeats it. All waiting for outcomes in a process uses this method: its
	// cost grows with len(keys), not with the backlog and not with history. A driver asks for
	// [MaxKeys] in one statement, so more keys than that are not read at one moment.
	Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error)
	// Counts counts open batches by lane, in byte order of services after q.After. It counts
	// attempted batches exactly, by state, and waiting batches up to q.Cap in each lane. Its
	// cost grows with the lanes returned, with the batches in flight in them and with Cap,
	// never with the backlog or with history. Fewer lanes than q.Limit mean that there are no
	// more; a lane that became empty meanwhile may be among them.
	Counts(ctx context.Context, q CountsQuery) ([]LaneCounts, error)
	// Prune removes final batches, final orders, the ids in the [Journal] and the acts of
	// operators on lanes: the oldest of each kind, at most q.Limit of each. It returns the
	// number of each, beside an error too; [Pruned.More] says whether to call again. It never
	// touches an open batch, a batch in quarantine, nor a batch whose orders are not settled.
	// The history and the attempts of a batch go with it. Prune keeps no tombstones of orders.
	Prune(ctx context.Context, q PruneQuery) (Pruned, error)
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
	// Limit is the largest number of records. Defaults to 100, at most 1,000.
	Limit int
	// After goes on from an earlier call's cursor.
	After Cursor
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
	if q.Limit <= 0 {
		q.Limit = 100
	}
	if q.Cap <= 0 {
		q.Cap = 1000
	}
	q.Limit, q.Cap = min(q.Limit, 1000), min(q.Cap, 100_000)
	return q
}

// LaneCounts are the open batches of one lane.
type LaneCounts struct {
	Service batch.ServiceID `json:"service"`
	// Attempted counts the open batches that were ever claimed, by state; a state without
	// batches is not in it.
	Attempted map[batch.State]int `json:"attempted"`
	// Waiting counts the open batches that were never claimed, or were put at the end since.
	// Where it equals the query's Cap there may be more.
	Waiting int `json:"waiting"`
}

// Engine is the half that the loops use. Methods do not retry: the loops do. Methods do not
// keep the slices passed in; returned slices belong to the caller.
type Engine interface {
	// Lanes lists services that have open batches and are neither paused nor halted, in byte
	// order after q.After: the queuer's rotating scan reads them. It locks nothing.
	Lanes(ctx context.Context, q LanesQuery) ([]batch.ServiceID, error)
	// Claim shows each named lane to choose, and marks the chosen batches Submitting, in one
	// transaction. It skips lanes that another claim holds, and names them in Claimed.Locked.
	// It treats a lane that is paused or halted as empty, and does not ask choose about it.
	// This covers a lane that was paused or halted before the call, and a lane that was halted
	// by the transaction which made a batch final, if choose no longer sees that batch.
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
	// KeepPrepared keeps the bytes that clients prepared, each by compare-and-set on the
	// version, which it does not raise: [Row.KeepPrepared] is the rule. true says that bytes
	// are kept, by this call or an earlier one; false says that the row has moved on, so that
	// nothing may be posted. No bytes, or more than [MaxPrepared], give a [*batch.InputError],
	// and the call writes nothing. After any other error nothing may be posted either; calling
	// again is harmless.
	KeepPrepared(ctx context.Context, kept []Prepared) ([]bool, error)
	// Record applies outcomes of attempts, in groups, each by compare-and-set on its version.
	// An outcome that is fenced or bad fails alone, in its place in the result. In the same
	// transaction Record carries out the lane's policy about batches that it makes final as
	// Invalid or Rejected ([Applied.Enforce]), and keeps the reports of attempts
	// ([Outcome.Reported]). Outcomes without either cost no further statement. After an error
	// nothing is known to be applied: call again with the same outcomes, which is harmless.
	Record(ctx context.Context, outcomes []Outcome) ([]Applied, error)
	// Pending selects due rows that the monitor owns (Pending, Valid, unsettled Invalid,
	// Submitting with an expired claim): the row asked about longest ago first, then by order
	// key. It leases them by moving their next check forward, without raising versions. After
	// an error the returned rows may be leased all the same, and nobody else gets them before
	// the lease ends; to ask the ledger about them is harmless, leased or not.
	Pending(ctx context.Context, q PendingQuery) ([]InFlight, error)
	// Witnesses returns ids of batches that are earlier than ref in its lane, latest first, up
	// to limit: batches that became final as Committed or Invalid before ref's first
	// unresolved attempt was claimed (Row.DoubtSince). The ledger decided on them before
	// anything of ref was posted. It returns none where ref is not open, has no unresolved
	// attempt or is not stored. It looks at the [WitnessReach] batches before ref, so that its
	// cost does not grow with history.
	Witnesses(ctx context.Context, ref Ref, limit int) ([]batch.ID, error)
	// Checked says when to ask next about rows that stay as they are.
	Checked(ctx context.Context, due []Due) error
	// Ledger records the ledger's name if none is recorded, and returns the recorded name.
	Ledger(ctx context.Context, name string) (string, error)
	// Serve records for each service the ledger that serves it, unless one is recorded, and
	// returns the recorded names in the order of services: [Serving] is the rule. A name ""
	// records nothing and only looks; the result is "" where no name is recorded.
	Serve(ctx context.Context, services []Served) ([]string, error)
	// KeepTraits keeps a text about the traits that dltbatch relies on, under the ledger's
	// name, where no text is kept yet or the kept text equals seen. It returns the text that
	// is kept then, "" for none. A caller that gets another text than its own passes that as
	// seen to replace it. With traits "" the call keeps nothing and only looks. After an error
	// it is open whether traits are kept; calling again is harmless.
	KeepTraits(ctx context.Context, name, traits, seen string) (string, error)
}

// Operator is what a person may do to a stored batch. Each method takes the record that the
// person saw. Where the batch has another version by now, the method does nothing, and the
// error is a [*batch.MovedOnError] with the present record. Otherwise a decision about one
// attempt might hit the next attempt, which the person never saw. Of the record Key and
// Version count; and CreatedAt where it is set, since it distinguishes a removed batch from a
// batch added again under its id. A caller that has only key and version may pass those. The
// version covers everything that a decision rests on; the monitor's questions about the batch
// do not raise it.
//
// The same transaction writes the act into the history. Each method returns
// [batch.ErrNotFound], [batch.ErrMovedOn], [batch.ErrNotAllowed] where the state table has no
// such move, [batch.ErrInDoubt], or a [*batch.InputError] where by names nobody or seen has no
// version. After any other error it is open whether the act was done; calling again with the
// same record is harmless, and gives ErrMovedOn where it was done.
type Operator interface {
	// Cancel moves a Queued or Delayed batch to Rejected, but never while a doubt is open.
	Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
	// Requeue moves an Invalid or Rejected batch back into its lane, in its old place or at
	// the end; at the end its CreatedAt is the present time, as if it were added now. It ends
	// a quarantine, and does not release the lane.
	Requeue(ctx context.Context, seen batch.Record, q Requeue, by batch.By) (batch.Record, error)
	// Decide ends a doubt: to Committed, Unknown (declared not committed, so that it is
	// sent again) or Rejected. The claim must have expired; a Pending or Valid batch must
	// stand as needing a decision. No policy follows.
	Decide(ctx context.Context, seen batch.Record, to batch.State, by batch.By) (batch.Record, error)
	// Acquit ends the quarantine of a batch, which stays final as it is.
	Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
}

// Controls hold lanes (pause, halt, policy). They are durable, whether a lane has batches or
// not, and count for all instances: every claim reads them.
type Controls interface {
	// Steer changes a control, and writes that into its history in the same transaction;
	// [Steering.Apply] is the rule. It returns the present control, and whether anything
	// changed. A Claim that begins after Steer has returned sees the change. Services that
	// were paused one by one stay paused when everything is resumed. Where the control is not
	// at [Steering].Seen any more, Steer does nothing and the error is a [*batch.MovedOnError]
	// with the present control; a pause is always done. A steering that makes no sense gives a
	// [*batch.InputError].
	Steer(ctx context.Context, s Steering) (now batch.Control, changed bool, err error)
	// Control returns one control; a control that was never set has only its scope.
	Control(ctx context.Context, scope batch.Scope) (batch.Control, error)
	// ControlsOf lists the controls of services that are [batch.Control.Set], in byte
	// order of services after q.After.
	ControlsOf(ctx context.Context, q ControlsQuery) ([]batch.Control, error)
}

// Inspector is for people who ask why. It changes nothing.
type Inspector interface {
	// History returns the acts of operators on a batch, oldest first, or [batch.ErrNotFound].
	// The store keeps the newest [batch.MaxActs].
	History(ctx context.Context, key batch.Key) ([]batch.Act, error)
	// LaneHistory returns the acts of operators on a lane, or on everything, oldest first. The
	// store keeps the newest [batch.MaxActs], and none for longer than batches.
	LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error)
	// Attempts returns the reports of a batch's attempts, oldest first ([KeepReport]), or
	// [batch.ErrNotFound].
	Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error)
	// Look returns a batch and its lane as a claim would see it, with the first window (at
	// least 1) of its waiting batches, all of one moment; or [batch.ErrNotFound]. It locks
	// nothing.
	Look(ctx context.Context, key batch.Key, window int) (Look, error)
}

// Journal keeps the ids that clients saw in their ledgers' streams of events. It has the
// methods of dlt.Journal, so every [Store] is one. All methods may be called concurrently,
// from any number of processes; none retries, and none keeps a slice. A name that is empty,
// longer than [batch.MaxIDLen] bytes or not printable text gives a [*batch.InputError].
// [Store].Prune removes old ids, and shortens the span accordingly.
type Journal interface {
	// LeaseStream makes holder the stream's only writer for ttl, which must be positive, on
	// the database's clock, or renews that lease. held is false while another holder has it.
	// Each change of holder, and each lease after an expired one, even by the same holder,
	// gets a higher epoch; a renewal keeps the epoch. The covered span does not end with a
	// lease: the next writer sets Restart when it must.
	LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error)
	// AppendStream writes an entry, all of it or nothing. Where the epoch's lease is over it
	// writes nothing and held is false. An id that is in the log already stays as it is.
	AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error)
	// FindStream returns the ids that are in the log, each once and in any order, and the span
	// that the log covers. The span was true at each look for ids; FindStream looks for
	// [MaxKeys] in one statement.
	FindStream(ctx context.Context, stream string, ids []string) (batch.StreamFound, error)
}

// Ref names a stored batch. Row is the store's own number for it, opaque to callers; 0 where
// it is not known.
type Ref struct {
	Key batch.Key
	Row int64
}

// PendingQuery asks for due rows.
type PendingQuery struct {
	Limit int           // at most; must be positive
	Lease time.Duration // for so long nobody else gets them; 0 only looks, and writes nothing
	// Services, where it is not nil, selects the rows of these services that the monitor owns,
	// due or not, leased or not; a live claim is never the monitor's. It serves events that a
	// ledger sends by itself. The cost grows with the batches in flight in these services.
	Services []batch.ServiceID
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
	// Age is the time since the first claim after the batch was added or requeued; PostedAgo
	// where that is not known.
	Age time.Duration
	// Rollbacks counts executions in a row that the ledger took back.
	Rollbacks int
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
	Undecided bool   // already reported as needing a decision
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
