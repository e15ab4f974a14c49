package store

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Store is what a driver implements. All methods may be called concurrently, from
// any number of processes on one database.
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
	// Add stores all batches of the call, or none, in the order of the slice. nil
	// promises that they are durable. Adds of a service that do not overlap keep
	// their order. A batch whose id is stored with the same service and payload is
	// left as it is and counts as stored; with another service or payload the error
	// is [batch.ErrConflict]. A DataChangeID that is not "" is the caller's own key,
	// unique in its service for as long as the batch is stored: a batch whose key is
	// stored, or is an earlier one's of the call, counts as stored where the payload is
	// the same, whatever its id, and the one that is stored stays; with another payload
	// the error is [batch.ErrConflict], too. Two Adds of one id or one key wait for each
	// other, and if the first is not stored the second is. An invalid batch gives a [*batch.InputError]. Any other
	// error leaves open whether the call was stored: add again, it is harmless.
	// The slice is not kept. A store knows no ledger: whether that can read a batch is
	// looked at by a Runner's Add and AddTx.
	Add(ctx context.Context, batches ...batch.Batch) error
	// Get returns the record of a batch, open or final, or [batch.ErrNotFound].
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	// List returns records in the order of (CreatedAt, ID) and the cursor to go on
	// with, "" at the end. It is for people and tools, not for hot paths.
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)
	// Finals returns the records of those of keys that are final, and those of keys that
	// are not stored at all; the others are open. In any order, each key once, however
	// often it is named. It is what all waiting for outcomes in a process is asked with:
	// its cost grows with len(keys), not with the backlog and not with history. A driver
	// asks for [MaxKeys] in one statement, so that more of them are not one moment's.
	Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error)
	// Counts counts what is open, by lane, in byte order of services after q.After. What
	// was ever attempted is counted exactly, by state; what waits, up to q.Cap in each
	// lane. Its cost grows with the lanes returned, with what is in flight in them and
	// with Cap, and never with the backlog or with history. Fewer lanes than q.Limit are
	// all there are; one that became empty meanwhile may be among them.
	Counts(ctx context.Context, q CountsQuery) ([]LaneCounts, error)
	// Prune removes final batches, final orders, the ids that the [Journal] wrote down and
	// what operators did to lanes: the oldest of each kind, and up to q.Limit of each. It
	// returns how many of each, beside an error too; [Pruned.More] says whether to call
	// again. It never touches what is open, what is in quarantine, nor a batch whose orders
	// are not settled. With a batch go its history and its attempts. Of orders it keeps no
	// tombstones.
	Prune(ctx context.Context, q PruneQuery) (Pruned, error)
}

// MaxKeys is how many keys a driver asks its database for in one statement.
const MaxKeys = 500

// WitnessReach is how many batches before one Witnesses looks at.
const WitnessReach = 500

// ListQuery selects records; zero fields select all.
type ListQuery struct {
	Service *batch.ServiceID
	States  []batch.State
	// Open selects what is not final, whatever its state.
	Open bool
	// Quarantined selects what a policy set aside. The cost grows with those.
	Quarantined bool
	// OlderThan and NewerThan bound the age, which is since CreatedAt on the database's
	// clock: at least the one, and less than the other. 0 is no bound.
	OlderThan, NewerThan time.Duration
	// Limit is how many records at most. Defaults to 100, at most 1,000.
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
	// Cap is how far what waits is counted in each lane. Defaults to 1,000, at most 100,000.
	Cap int
}

// Bounded is the query with its defaults, and no more than its bounds.
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

// LaneCounts is what is open in one lane.
type LaneCounts struct {
	Service batch.ServiceID `json:"service"`
	// Attempted is how many open batches were ever claimed, by state; a state without
	// any is not in it.
	Attempted map[batch.State]int `json:"attempted"`
	// Waiting is how many were not, or were put at the end since; where it is the Cap of
	// the query, at least so many.
	Waiting int `json:"waiting"`
}

// Engine is the half that the loops use. Methods do not retry: the loops do.
// Slices that are passed in are not kept; those returned belong to the caller.
type Engine interface {
	// Lanes lists services that have open batches and are neither paused nor halted, in
	// byte order after q.After: what the queuer's rotating scan reads. It locks nothing.
	Lanes(ctx context.Context, q LanesQuery) ([]batch.ServiceID, error)
	// Claim looks at the lanes named, asks choose what to take from each, and marks it
	// Submitting in one transaction. Lanes that another claim holds are skipped and
	// named in Claimed.Locked. Those that are paused or halted are left out as if they
	// were empty, and choose is not asked about them: one that was closed before the
	// call is closed to it, and so is one that was halted in the transaction which made
	// a batch final that choose is not shown.
	//
	// After an error Claimed.Runs are claims that were made if the call was committed all the
	// same, which is not known: the answer to its COMMIT was lost, say. Without any, nothing
	// was claimed. Nobody may post them, nobody else can know of them, and those that were
	// made would stand until they expire. So they are put back, each by an outcome Unposted
	// at its Version: that is written where the claim was made and still stands, and fenced
	// where it was not made, since no other has its version ([ClaimQuery].Salt).
	Claim(ctx context.Context, q ClaimQuery, choose Choose) (Claimed, error)
	// Payloads returns the payloads of claimed batches in the order of refs, of those
	// that did not come with the claim; nil where there is no such batch.
	Payloads(ctx context.Context, refs []Ref) ([][]byte, error)
	// KeepPrepared keeps what clients prepared, each by compare-and-set on its version,
	// which it does not raise: [Row.KeepPrepared] is the rule. true says that something is
	// kept, now or since earlier; false that the row has moved on, so that nothing may be
	// posted. Bytes that are none, or more than [MaxPrepared], give a [*batch.InputError],
	// and nothing of the call is written. After any other error nothing may be posted
	// either; calling again is harmless.
	KeepPrepared(ctx context.Context, kept []Prepared) ([]bool, error)
	// Record applies what became of attempts, in groups, each by compare-and-set on
	// its version. One that is fenced or bad fails alone, in its place in the result.
	// In the same transaction it carries out the lane's policy about what it makes final
	// as Invalid or Rejected ([Applied.Enforce]), and keeps the reports of attempts
	// ([Outcome.Reported]). Outcomes without either cost no statement more.
	// An error means that nothing is known to be applied: call again with the same
	// outcomes, which is harmless.
	Record(ctx context.Context, outcomes []Outcome) ([]Applied, error)
	// Pending selects due rows that the monitor owns (Pending, Valid, unsettled Invalid,
	// Submitting with an expired claim), least recently asked first, then in order, and
	// leases them by moving their next check forward, without raising versions. After an
	// error the rows returned may be leased all the same, so that nobody else gets them before
	// the lease ends; to ask about them is harmless, leased or not.
	Pending(ctx context.Context, q PendingQuery) ([]InFlight, error)
	// Witnesses returns ids of batches that are earlier than ref in its lane, latest first,
	// up to limit: those that had become final as Committed or Invalid before ref's first
	// unresolved attempt was claimed (Row.DoubtSince). What the ledger decided on them it
	// decided before anything of ref was posted. None where ref is not open, has no
	// unresolved attempt or is not stored. It looks at the [WitnessReach] batches before
	// ref, so that its cost does not grow with history.
	Witnesses(ctx context.Context, ref Ref, limit int) ([]batch.ID, error)
	// Checked says when to ask next about rows that stay as they are.
	Checked(ctx context.Context, due []Due) error
	// Ledger records the ledger's name if none is recorded, and returns the one that is.
	Ledger(ctx context.Context, name string) (string, error)
	// Serve records for each of services which ledger serves it, where none is recorded, and
	// returns the names that are, in the order of services: [Serving] is the rule. A name
	// that is "" is not recorded: it only looks, and "" comes back where none is.
	Serve(ctx context.Context, services []Served) ([]string, error)
	// KeepTraits keeps, under the name of a ledger, a text about what is relied on of it:
	// where nothing is kept yet, or where seen is. It returns the text that is kept then, ""
	// where there is none; so who gets another than its own passes that as seen to replace
	// it. traits that are "" are not kept: it only looks. After an error it is open whether
	// traits are kept; calling again is harmless.
	KeepTraits(ctx context.Context, name, traits, seen string) (string, error)
}

// Operator is what a person may do to a stored batch. Each method takes the record that
// the person saw, and acts upon that: where the batch is at another version by now, nothing
// is done, and the error is a [*batch.MovedOnError] with the record as it is now. Without
// that, a decision about one attempt might be carried out upon the next, which the person
// never saw. Of the record Key and Version count, and CreatedAt where it is set, which
// tells a batch that retention removed from one that was added again: who has no more than
// a key and a version may pass those. The version covers all that a decision rests on; that the monitor asks about the
// batch in the meantime does not raise it.
//
// What was done is in the history, by the same transaction. Each returns
// [batch.ErrNotFound], [batch.ErrMovedOn], [batch.ErrNotAllowed] where the state table has
// no such move, [batch.ErrInDoubt], or a [*batch.InputError] where by names nobody or
// seen has no version. After any other error it is open whether it was done; calling again
// with the same record is harmless, and says ErrMovedOn where it was.
type Operator interface {
	// Cancel moves a Queued or Delayed batch to Rejected. Never while a doubt is open.
	Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
	// Requeue moves an Invalid or Rejected batch back into its lane, in its old place or
	// at the end: then its CreatedAt is that of a batch which is added now. It ends a
	// quarantine, and does not release the lane.
	Requeue(ctx context.Context, seen batch.Record, q Requeue, by batch.By) (batch.Record, error)
	// Decide ends a doubt: to Committed, Unknown (declared not committed, so that it is
	// sent again) or Rejected. The claim must have expired; a Pending or Valid batch must
	// stand as needing a decision. No policy follows.
	Decide(ctx context.Context, seen batch.Record, to batch.State, by batch.By) (batch.Record, error)
	// Acquit ends the quarantine of a batch, which stays final as it is.
	Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
}

// Controls are what holds lanes. They are durable, whether a lane has batches or not,
// and for all instances: every claim reads them.
type Controls interface {
	// Steer changes a control, and writes that into its history by the same transaction;
	// [Steering.Apply] is the rule. It returns the control as it is now, and whether
	// anything changed. No Claim that begins after it has returned misses it. Services
	// that are paused one by one stay so when everything is resumed. Where the control
	// is not at [Steering].Seen any more nothing is done, and the error is a
	// [*batch.MovedOnError] with the control as it is now; a pause is always done. A steering
	// that makes no sense gives a [*batch.InputError].
	Steer(ctx context.Context, s Steering) (now batch.Control, changed bool, err error)
	// Control returns one control; where nothing was ever said it has only its scope.
	Control(ctx context.Context, scope batch.Scope) (batch.Control, error)
	// ControlsOf lists the controls of services that are [batch.Control.Set], in byte
	// order of services after q.After.
	ControlsOf(ctx context.Context, q ControlsQuery) ([]batch.Control, error)
}

// Inspector is for people who ask why. It changes nothing.
type Inspector interface {
	// History returns what operators did to a batch, oldest first, or [batch.ErrNotFound].
	// The newest [batch.MaxActs] are kept.
	History(ctx context.Context, key batch.Key) ([]batch.Act, error)
	// LaneHistory returns what operators did to a lane, or to everything, oldest first.
	// The newest [batch.MaxActs] are kept, and none for longer than batches.
	LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error)
	// Attempts returns the reports of a batch's attempts, oldest first ([KeepReport]), or
	// [batch.ErrNotFound].
	Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error)
	// Look returns a batch and what a claim would see of its lane, of those that wait the
	// first window (at least 1), all as it was at one moment; or [batch.ErrNotFound]. It
	// locks nothing.
	Look(ctx context.Context, key batch.Key, window int) (Look, error)
}

// Journal keeps what clients saw of their ledgers' streams of events. It has the
// methods of dlt.Journal, so that every [Store] is one. All methods may be called
// concurrently, from any number of processes; none retries, and none keeps a slice.
// An empty name, one longer than [batch.MaxIDLen] bytes or one that is no printable
// text gives a [*batch.InputError]. [Store].Prune removes old ids, and shortens the
// span by what it took.
type Journal interface {
	// LeaseStream makes holder the stream's only writer for ttl, which must be positive,
	// on the database's clock, or renews that. held is false while another has it.
	// Each change of holder, and each lease after an expired one, even by the same
	// holder, has a higher epoch; a renewal has the same. The span covered does not end
	// with a lease: the next writer says Restart when it must.
	LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error)
	// AppendStream writes an entry, all of it or nothing. held is false, and nothing is
	// written, where the epoch's lease is over. An id that is in the log already is
	// left as it is.
	AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error)
	// FindStream says which of ids are in the log, each once and in any order, and what
	// span it covers. What it says of the span was true when it looked for every one of
	// ids. It asks for [MaxKeys] in one statement.
	FindStream(ctx context.Context, stream string, ids []string) (batch.StreamFound, error)
}

// Ref names a stored batch. Row is the store's own number for it, opaque to
// everybody else; 0 where it is not known.
type Ref struct {
	Key batch.Key
	Row int64
}

// PendingQuery asks for due rows.
type PendingQuery struct {
	Limit int           // at most; must be positive
	Lease time.Duration // until when nobody else gets them; 0 only looks, and writes nothing
	// Services selects, where it is not nil, the rows of these services that the monitor
	// owns, due or not, leased or not; a live claim is never the monitor's. For what a
	// ledger says by itself. The cost grows with what is in flight in them.
	Services []batch.ServiceID
}

// InFlight is a row that the monitor asks the ledger about. Ages and times left are
// durations on the database's clock.
type InFlight struct {
	Ref
	Version int64
	State   batch.State
	Attempt int
	Spent   int
	Budget  batch.Budget
	// PostedAgo is since the last POST that may have had an effect ended; of an attempt
	// in doubt, since its claim expired, which is later.
	PostedAgo time.Duration
	// Age is since the batch was first claimed, since it was added or requeued; PostedAgo where
	// that is not known.
	Age time.Duration
	// Rollbacks is how many executions in a row the ledger took back.
	Rollbacks int
	// Resends is how many POSTs followed the first unresolved attempt.
	Resends int
	// ResendLeft is for how long a resend stays harmless; negative when it no longer is.
	ResendLeft time.Duration
	// SettleLeft is how long an Invalid may still become Committed.
	SettleLeft time.Duration
	// DoubtAttempt is the first unresolved attempt, claimed DoubtAgo.
	DoubtAttempt int
	DoubtAgo     time.Duration
	Failures     int // certain failures in a row; a doubt ends the row
	// Ended says that the last POST is known to have ended: the doubt was recorded.
	// Otherwise the claim has expired on the database's clock, and its request may
	// still be under way if that clock jumped.
	Ended bool
	// ClaimTTL is how long the last claim was given, by whoever claimed; 0 where that is
	// not known, as of a claim by code from before it was kept.
	ClaimTTL time.Duration
	// Seen is the endpoint that has shown this attempt as being under way, since a resend
	// of it was posted; "" for none.
	Seen      string
	Refused   bool   // an error is kept that becomes final once the doubt is resolved
	Requeued  bool   // verdicts from before the requeue may still be reported
	Undecided bool   // already reported as needing a decision
	Prepared  []byte // what KeepPrepared kept, nil for none
	Was       *Row   // for the outcome: [Outcome].Was
	// CheckIn is how long until it is due (again): Lease, where there is one.
	CheckIn time.Duration
}

// Due says when to ask next.
type Due struct {
	Ref
	In time.Duration
}
