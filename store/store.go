package store

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Store is the contract between dltbatch and a database. docs/stores.md is the manual for the
// author of a store, and examples/toystore is a store in one file.
//
// A store begins with the methods of [Delivery], and embeds [Unimplemented], which has all
// other methods and refuses their calls with [ErrUnsupported]. Each group of the other methods is
// one of the [Abilities]: a store that has written the methods of a group names the ability in its
// Abilities. Package store/storetest checks that the two agree.
//
// To wrap a store, embed a Store in a struct: the struct has all abilities of the store inside.
//
// All methods may be called concurrently, from any number of processes on one database. Methods do
// not retry: the callers do. Methods do not keep the slices passed in; returned slices belong to
// the caller.
type Store interface {
	Delivery

	// Abilities returns the abilities of the store, always the same ones. It does no I/O.
	Abilities() Abilities

	// Outcomes of many batches at once: [CanReadFinals].

	// Finals returns the records of all keys whose batches are final, or what their tombstones
	// keep ([Remains]), and separately the keys that are not stored. The batches of the other keys
	// are open. The results are in any order, and each key comes once, even if keys repeats it.
	// All callers of a process that wait for outcomes share this method, because its cost grows
	// with len(keys), and not with the backlog or with history. A driver asks for [MaxKeys] keys
	// in one statement, so more keys than that are not read at one moment.
	Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error)

	// Lists: [CanList].

	// List returns records in the order of (CreatedAt, ID), or in reverse, and the cursor for the
	// next call; "" at the end. It is for people and tools, and not for frequent calls.
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)

	// Counts, for people and for measurements: [CanCount].

	// Counts counts open batches by lane, in byte order of services after q.After. It counts
	// attempted batches exactly, by state, and waiting batches up to q.Cap in each lane. Its
	// cost grows with the lanes returned, with the batches in flight in them and with Cap,
	// never with the backlog or with history. Fewer lanes than q.Limit mean that there are no
	// more; a lane that became empty meanwhile may be among them.
	Counts(ctx context.Context, q CountsQuery) ([]LaneCounts, error)

	// Removal of old batches: [CanPrune].

	// Prune removes final batches, final orders, old ids of streams and the acts of operators on
	// lanes: the oldest of each kind, at most q.Limit of each. It returns the number of each, even
	// together with an error; [Pruned.More] reports whether to call again. It removes no open
	// batch, no batch in quarantine and no batch whose orders are not settled. The history and the
	// attempts of a batch are removed with it. A tombstone keeps the service, the id, the
	// DataChangeID, the hash of the payload, and how the batch ended ([Remains]). Orders leave no
	// tombstones.
	Prune(ctx context.Context, q PruneQuery) (Pruned, error)

	// Bytes that a client has to know again after a crash: [CanKeepPrepared].

	// KeepPrepared keeps the bytes that clients prepared. Each is written by compare-and-set on
	// the version, which it does not raise, and on the bytes that are kept already, which grow by
	// appending only; [Row.KeepPrepared] is the rule. A true in the result means that the bytes
	// are kept, by this call or an earlier one. A false means that the row has changed or keeps
	// other bytes, so that nothing may be posted. If [Prepared.Validate] returns an error, the
	// call returns it and writes nothing. After any other error nothing may be posted either;
	// calling again is harmless.
	KeepPrepared(ctx context.Context, kept []Prepared) ([]bool, error)

	// Batches by which a client (dlt.Ledger.Resolve) recognises that a ledger has not forgotten:
	// [CanFindWitnesses].

	// Witnesses returns ids of batches that are earlier than ref in its lane, latest first, up
	// to limit: batches that became final as Committed or Invalid before ref's first
	// unresolved attempt was claimed (Row.DoubtSince). The ledger decided on them before
	// anything of ref was posted. It returns none where ref is not open, has no unresolved
	// attempt or is not stored. It looks at the [WitnessReach] batches before ref, so that its
	// cost does not grow with history.
	Witnesses(ctx context.Context, ref Ref, limit int) ([]batch.ID, error)

	// Small texts that the library has to know again and has no table for, each under a kind and a
	// name: [CanKeepTexts]. The constants of [TextKind] are the list.

	// ReadTexts returns the texts of a kind under these names, in the order of names, and the
	// database's clock. For a name without a text it returns a [Text] with Version 0. If
	// [ValidTextNames] returns an error, so does ReadTexts.
	ReadTexts(ctx context.Context, kind TextKind, names ...string) ([]Text, time.Time, error)
	// ListTexts returns the texts of a kind, the last changed first, and the database's clock.
	ListTexts(ctx context.Context, q TextsQuery) ([]Text, time.Time, error)
	// SwapTexts writes all these texts or none of them. It writes them if each is kept with the
	// Version that it has here; Version 0 means that no text is kept. The result is true if they
	// are written. A text without a Body is removed. Begun and Changed are ignored. If
	// [ValidTexts] returns an error, so does SwapTexts. After any other error it is not known
	// whether the texts are written: read them again.
	SwapTexts(ctx context.Context, texts ...Text) (bool, error)

	// Acts that a person may do to a stored batch: [CanOperate].
	//
	// Each method takes the record that the person saw. Where the batch has another version by
	// now, the method does nothing, and the error is a [*batch.MovedOnError] with the present
	// record. Otherwise a decision about one attempt might hit the next attempt, which the person
	// never saw. Of the record Key and Version count; and CreatedAt where it is set, since it
	// distinguishes a removed batch from a batch added again under its id. A caller that has only
	// key and version may pass those. The version covers everything that a decision rests on; the
	// monitor's questions about the batch do not raise it.
	//
	// The same transaction writes the act into the history. Each method returns
	// [batch.ErrNotFound], [batch.ErrMovedOn], [batch.ErrNotAllowed] where the state table has no
	// such move, [batch.ErrInDoubt], or a [*batch.InputError] where by names nobody or seen has no
	// version. After any other error it is open whether the act was done; calling again with the
	// same record is harmless, and gives ErrMovedOn where it was done.

	// Cancel moves a waiting batch (Queued, Delayed or Unknown) to Rejected. It never does so
	// while a doubt is open.
	Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
	// Requeue moves an Invalid or Rejected batch back into its lane, in its old place. It ends
	// a quarantine, and does not release the lane. A batch that was given up
	// ([batch.KindGivenUp]) is not requeued: [batch.ErrNotAllowed].
	Requeue(ctx context.Context, seen batch.Record, q Requeue, by batch.By) (batch.Record, error)
	// Decide ends a doubt by a person's finding ([batch.Ruling]). The claim must have expired; a
	// Pending or Valid batch must stand as needing a decision. A waiting batch (Delayed or
	// Unknown) may be decided while an earlier attempt is in doubt. No policy follows. Where kept
	// bytes may be sent again for ever, [batch.NotExecutedSendAgain] does not end the doubt, and
	// [batch.NotExecutedReject] is for good (docs/design.md#prepared-bytes).
	Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error)
	// Withdraw notes that an open batch is to be kept from taking effect, on a ledger that can do
	// that (dlt.Traits.Withdraws). The batch must keep prepared bytes that may be sent again for
	// ever, and have an attempt in doubt; otherwise the error is [batch.ErrNotAllowed]. It must
	// have no live claim; otherwise the error is [batch.ErrInDoubt]. The note stays until the
	// batch is final ([Row.Withdraw]).
	Withdraw(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
	// Acquit ends the quarantine of a batch, which stays final as it is.
	Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)

	// Controls hold lanes: a pause, a halt, a policy ([CanControl]). They are durable, whether a
	// lane has batches or not, and count for all instances: every claim reads them.

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
	// ControlsOf lists the controls of services that are [batch.Control.InEffect], in byte order
	// of services after q.After.
	ControlsOf(ctx context.Context, q ControlsQuery) ([]batch.Control, error)

	// Histories and reports, for people who ask why: [CanInspect]. These methods change nothing.

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

	// The acts of operators upon all batches and lanes at once: [CanListActs].

	// Acts returns the acts of operators upon batches, lanes and everything, the newest first by
	// the database's clock, and the cursor for the next call; "" at the end. It returns the acts
	// of all History and LaneHistory. Its cost grows with q.Limit, and not with the number of
	// acts, except in memory and on a schema from before its index. A cursor that Acts of this
	// store did not return gives a [*batch.InputError].
	Acts(ctx context.Context, q ActsQuery) ([]batch.Act, Cursor, error)

	// Counts of open batches and orders, for dashboards, metrics and alerts: [CanCountOpen]. The
	// time of a count grows with the number of open batches. So one process of the cluster counts
	// for all, now and then, and keeps the counts as a text; readers get them with their age
	// (docs/design.md#counting-what-is-open).

	// CountOpen counts open batches and orders. It reads everything at one moment, takes no lock
	// that others wait for, and gives up after [StatsLimit]. It does not set Took, By and Earlier.
	CountOpen(ctx context.Context) (Totals, error)

	// All lanes at once, for people who ask which batches stand still and why: [CanSurvey]. These
	// methods change nothing.

	// Survey looks at lanes that have open batches, closed ones included, in byte order of
	// services after q.After, or in the order of q.Services. Fewer lanes than q.Limit mean that
	// there are no more; a lane that became empty meanwhile may be among them. Its cost grows with
	// the lanes returned, with the batches in flight in them, with Window and Cap, never with the
	// backlog or with history. It locks nothing.
	Survey(ctx context.Context, q SurveyQuery) (Survey, error)

	// Search, for people who know a part of a name: [CanFind]. These methods change nothing.

	// Find returns the records of the batches that q names, open or final, or what their
	// tombstones keep ([Remains]), in byte order of the id or key that q searches. more is true if
	// other batches may match: there are more than q.Limit, or more ids begin alike than the store
	// compares in one call. If nothing is found, there is no error. If [FindQuery.Validate]
	// returns an error, so does Find. The cost grows with q.Limit, and not with the number of
	// batches; in memory it grows with all batches.
	Find(ctx context.Context, q FindQuery) (found []batch.Record, more bool, err error)
	// FindLanes returns lanes in byte order: those that have batches or orders, open or final, a
	// control that was set, or a ledger on record ([TextServed]). Its cost grows with the lanes
	// returned; in memory with all.
	FindLanes(ctx context.Context, q FindLanesQuery) ([]batch.ServiceID, error)

	// The ids that clients saw in their ledgers' streams of events: [CanKeepStreams]. The methods
	// are those of dlt.Journal. A name that is empty, longer than [batch.MaxIDLen] bytes or not
	// printable text gives a [*batch.InputError]. Prune removes old ids, and shortens the span
	// accordingly.

	// LeaseStream makes holder the stream's only writer for ttl, which must be positive, on
	// the database's clock, or renews that lease. held is false while another holder has it.
	// Each change of holder, and each lease after an expired one, even by the same holder,
	// gets a higher epoch; a renewal keeps the epoch. A lease that ends later than 2*ttl from
	// now counts as expired: the clock stepped back since. The covered span does not end with a
	// lease: the next writer sets Restart when it must.
	LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error)
	// AppendStream writes a whole entry or nothing. If the epoch's lease is over, it writes
	// nothing and held is false. An id that is in the log already stays as it is.
	AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error)
	// FindStream returns the ids that are in the log, each once and in any order, and the span
	// that the log covers. The span was true at each read of ids; FindStream reads
	// [MaxKeys] in one statement.
	FindStream(ctx context.Context, stream string, ids []string) (batch.StreamFound, error)

	// Hints between the processes on a database: [CanHint]. Nothing rests on them. Scans, and the
	// reads of those who wait, find everything without them, later.

	// Tell sends a hint to all present listeners, in this process and others. It is called after
	// the transactions that the hint is about, and not in one of them, since it may cost all
	// writers of the database a little. After an error some listeners may have got the hint.
	// Nobody sends it again.
	Tell(ctx context.Context, h Hint) error
	// Hear passes the hints of others to a listener until ctx is done, and then returns ctx's
	// error. It returns another error when hints do not arrive any more, or when a test shows that
	// they never do; the caller calls Hear again later. The test, at the beginning and about once
	// a minute, sends a hint by Tell and waits for it.
	Hear(ctx context.Context, l Listener) error

	// Transactions of the application. They are no ability, since a Tx method is of the store's
	// own kind and no part of this interface.

	// Owns reports whether the Tx method of this store made tx. It does no I/O. A store without a
	// Tx method says false. Runner.AddTx asks before it adds anything, since the Tx of another
	// store would store the batches where no Runner looks for them.
	Owns(tx Tx) bool

	// Care of the store itself. It is no ability: a store that needs no care returns nothing.

	// Upkeep checks the store itself, not its batches, and repairs it if nobody has to wait for
	// that. It returns the conditions that the store's operator must know about at present, and
	// nothing while all is well. Every Runner calls it once a second, so it may be called
	// concurrently, by several processes on one database.
	Upkeep(ctx context.Context) ([]Warning, error)
}

// Delivery is the part of a [Store] without which no batch is delivered.
type Delivery interface {
	// Add stores all batches of the call, or none, in the order of the slice. nil promises that
	// they are durable. Adds of a service that do not overlap keep their order. A batch whose id
	// is stored with the same service and payload counts as stored, and the stored batch stays as
	// it is; with another service or payload the error is [batch.ErrConflict]. A batch that a
	// Prune removed and of which it kept a tombstone counts as stored if it was Committed;
	// otherwise the error is a [*batch.EndedError] ([AddedAgain]), and with another service or
	// payload [batch.ErrConflict]. A DataChangeID other than "" is the caller's own key, unique in
	// its service for as long as the batch is stored or has a tombstone. Where a stored batch, or
	// an earlier batch that this call stores, has the same key and the same payload, this batch
	// counts as stored, even under another id, and the earlier batch stays; with another payload
	// the error is [batch.ErrConflict], too. Two Adds of one id or one key wait for each other; if
	// the first fails, the second is stored. The trace context is kept with the batch:
	// [Ref].TraceParent. It is no part of what makes two batches the same; the context of the
	// stored batch stays. The same holds for Tags, which the batch's record has. An invalid batch
	// gives a [*batch.InputError]. Any other error leaves open whether the call was stored: add
	// again, it is harmless. Add does not keep the slice. A store knows no ledger: a Runner's Add
	// and AddTx check whether the ledger can read a batch.
	Add(ctx context.Context, batches ...batch.Batch) error
	// Get returns the record of a batch, open or final, or what its tombstone keeps ([Remains]),
	// or [batch.ErrNotFound].
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	// Lanes lists services that have open batches and are not closed by a control ([CanControl]),
	// in byte order after q.After: the queuer's rotating scan reads them. It locks nothing.
	Lanes(ctx context.Context, q LanesQuery) ([]batch.ServiceID, error)
	// Claim shows each named lane to choose, and marks the chosen batches Submitting, in one
	// transaction. It skips lanes that another claim holds, and names them in Claimed.Locked.
	// With [CanControl] it treats a lane that is paused or halted as empty, and does not ask
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
	// Payloads returns the payloads of claimed batches whose payloads did not come with the claim,
	// in the order of refs. A payload is nil if there is no such batch.
	Payloads(ctx context.Context, refs []Ref) ([][]byte, error)
	// Record applies outcomes of attempts, in groups, each by compare-and-set on its version.
	// An outcome that is fenced or bad fails alone, in its place in the result. In the same
	// transaction a store with [CanControl] carries out the lane's policy about batches that
	// Record makes final as Invalid or Rejected ([Applied.Enforce]), and a store with
	// [CanInspect] keeps the reports of attempts ([Outcome.Reported]). Outcomes without either
	// cost no further statement. After an error nothing is known to be applied: call again
	// with the same outcomes, which is harmless.
	Record(ctx context.Context, outcomes []Outcome) ([]Applied, error)
	// Pending selects due open rows that the monitor owns (Pending, Valid, unsettled Invalid,
	// Submitting with an expired claim). The row that was asked about longest ago comes first, and
	// order keys decide between equals. Pending leases the rows by moving their next checks
	// forward, without raising versions. After an error the returned rows may nevertheless be
	// leased, and then nobody else gets them before the lease ends. To ask the ledger about them
	// is harmless, leased or not.
	Pending(ctx context.Context, q PendingQuery) ([]InFlight, error)
	// Checked sets when the monitor asks next about rows that stay as they are.
	Checked(ctx context.Context, due []Due) error
}

// MaxKeys is the number of keys that a driver asks its database for in one statement.
const MaxKeys = 500

// WitnessReach is the number of earlier batches that one Witnesses looks at.
const WitnessReach = 500

// Ref names a stored batch.
type Ref struct {
	Key batch.Key
	// Row is the store's own number for the batch, which has no meaning for callers; 0 if it is
	// not known.
	Row int64
	// Created is when the batch was added, on the database's clock. Together with the id it is the
	// batch's order key. It is zero if it is not known. No store needs it to find a batch.
	Created time.Time
	// TraceParent is the trace context that was added with the batch ([batch.Batch].TraceParent);
	// "" if there is none, or if it is not known. A store sets it in each Ref that it returns, as
	// it does with Created. No store needs it to find a batch.
	TraceParent string
}
