package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// ErrUnsupported says that a store does not have an optional interface that the call needs. The
// error that wraps it names the method and the interface. It wraps [errors.ErrUnsupported].
var ErrUnsupported = fmt.Errorf("store: %w", errors.ErrUnsupported)

// Ability is an optional interface of a [Store].
type Ability struct {
	Interface string // such as "store.Pruner"
	Has       bool   // the store implements it
	Loss      string // the loss of a Runner and its user if the store does not
}

// Abilities lists the optional interfaces that belong to a [Full] store, and says for each
// whether s has it.
func Abilities(s Store) []Ability {
	return []Ability{
		ability[FinalReader](s, "store.FinalReader", "each Await reads its batch by itself"),
		ability[Lister](s, "store.Lister", "no Idle, and no strategy that relies on the ledger's order"),
		ability[Counter](s, "store.Counter", "nobody sees how many batches wait"),
		ability[Pruner](s, "store.Pruner", "final batches are kept for ever"),
		ability[PreparedKeeper](s, "store.PreparedKeeper", "no ledger that prepares batches, such as Canton and EVM chains"),
		ability[WitnessReader](s, "store.WitnessReader", "a resolver gets no witnesses, so more doubts need a person"),
		ability[Ledgers](s, "store.Ledgers", "nothing notices that batches belong to another ledger; no dlt.Router"),
		ability[Operator](s, "store.Operator", "no Cancel, Requeue, Decide and Acquit"),
		ability[Controls](s, "store.Controls", "no pause, halt and policy"),
		ability[Inspector](s, "store.Inspector", "no Explain and no history"),
		ability[StatsKeeper](s, "store.StatsKeeper", "no counts of what is open, and no list of instances"),
		ability[Surveyor](s, "store.Surveyor", "nobody sees all lanes and what each waits for, nor finds a batch by its other names"),
		ability[BulkKeeper](s, "store.BulkKeeper", "no bulk action that another process can go on with"),
		ability[ActLister](s, "store.ActLister", "nobody sees what operators did to all batches and lanes"),
		ability[SummaryKeeper](s, "store.SummaryKeeper", "each process looks at all lanes for itself"),
		ability[Journal](s, "store.Journal", "no client that keeps its ledger's events, such as Splinter's resolver"),
	}
}

func ability[T any](s Store, name, loss string) Ability {
	_, has := s.(T)
	return Ability{Interface: name, Has: has, Loss: loss}
}

// BatchStore is the application's half of a [Full] store: the methods that an application may
// call itself, beside a Runner.
type BatchStore interface {
	// Add is [Store].Add.
	Add(ctx context.Context, batches ...batch.Batch) error
	// Get is [Store].Get.
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	FinalReader
	Lister
	Counter
	Pruner
}

// FinalReader reads many outcomes at once. Without it a Runner's Await works on Get, which it
// calls for each batch that somebody waits for, in every Options.PollInterval.
type FinalReader interface {
	// Finals returns the records of all keys whose batches are final, or what their tombstones keep
	// ([Remains]), and separately the keys of which nothing is stored; the other batches are open. The order is any; each key comes once,
	// even if keys repeats it. All waiting for outcomes in a process uses this method: its
	// cost grows with len(keys), not with the backlog and not with history. A driver asks for
	// [MaxKeys] in one statement, so more keys than that are not read at one moment.
	Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error)
}

// Lister lists batches. Without it a Runner's Idle gives [ErrUnsupported], and New refuses a
// strategy that relies on the ledger's order, such as queuer.Pipelined: nobody could say which
// batches went ahead of a batch that is sent again ([Ahead]).
type Lister interface {
	// List returns records in the order of (CreatedAt, ID) and the cursor for the next call,
	// "" at the end. It is for people and tools, not for hot paths.
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)
}

// Counter counts batches, for people and for measurements. A Runner does without it.
type Counter interface {
	// Counts counts open batches by lane, in byte order of services after q.After. It counts
	// attempted batches exactly, by state, and waiting batches up to q.Cap in each lane. Its
	// cost grows with the lanes returned, with the batches in flight in them and with Cap,
	// never with the backlog or with history. Fewer lanes than q.Limit mean that there are no
	// more; a lane that became empty meanwhile may be among them.
	Counts(ctx context.Context, q CountsQuery) ([]LaneCounts, error)
}

// Pruner removes old batches. Without it a store keeps everything for ever: New refuses an
// Options.Retention of more than 0, and the default is to keep.
type Pruner interface {
	// Prune removes final batches, final orders, the ids in the [Journal] and the acts of
	// operators on lanes: the oldest of each kind, at most q.Limit of each. It returns the
	// number of each, beside an error too; [Pruned.More] says whether to call again. It never
	// touches an open batch, a batch in quarantine, nor a batch whose orders are not settled.
	// The history and the attempts of a batch go with it. A tombstone keeps the service, the id, the
	// DataChangeID, the hash of the payload, and how the batch ended ([Remains]). Prune keeps no
	// tombstones of orders.
	Prune(ctx context.Context, q PruneQuery) (Pruned, error)
}

// PreparedKeeper keeps bytes that a client has to know again after a crash. Without it New
// refuses a ledger that prepares batches (dlt.Traits.Prepares), and a Run holds services whose
// route does.
type PreparedKeeper interface {
	// KeepPrepared keeps the bytes that clients prepared, each by compare-and-set on the
	// version, which it does not raise, and on the bytes that are kept already, which grow by
	// appending only: [Row.KeepPrepared] is the rule. true says that these bytes are kept, by
	// this call or an earlier one; false says that the row has moved on or keeps other bytes, so
	// that nothing may be posted. What [Prepared.Validate] refuses gives its [*batch.InputError],
	// and the call writes nothing. After any other error nothing may be posted either; calling
	// again is harmless.
	KeepPrepared(ctx context.Context, kept []Prepared) ([]bool, error)
}

// WitnessReader finds batches by which a client (dlt.Ledger.Resolve) recognises that a ledger has
// not forgotten. Without it resolvers get no witnesses: a resolver that needs one, such as
// Splinter's, cannot tell more often, and a person has to decide.
type WitnessReader interface {
	// Witnesses returns ids of batches that are earlier than ref in its lane, latest first, up
	// to limit: batches that became final as Committed or Invalid before ref's first
	// unresolved attempt was claimed (Row.DoubtSince). The ledger decided on them before
	// anything of ref was posted. It returns none where ref is not open, has no unresolved
	// attempt or is not stored. It looks at the [WitnessReach] batches before ref, so that its
	// cost does not grow with history.
	Witnesses(ctx context.Context, ref Ref, limit int) ([]batch.ID, error)
}

// Ledgers records which ledger the batches of a store belong to. Without it nothing notices that
// a Runner of another ledger, or with other traits, works on the same store; it may send batches
// of the first ledger to the second, and ask the second about batches of the first. New refuses a
// dlt.Router: a route that changed would do the same.
type Ledgers interface {
	// Ledger records the ledger's name if none is recorded, and returns the recorded name.
	Ledger(ctx context.Context, name string) (string, error)
	// Serve records for each service the ledger that serves it, unless one is recorded, and
	// returns the recorded names in the order of services. A name "" records nothing and only
	// looks; the result is "" where no name is recorded.
	Serve(ctx context.Context, services []Served) ([]string, error)
	// KeepTraits keeps a text about the traits that dltbatch relies on, under the ledger's
	// name, where no text is kept yet or the kept text equals seen. It returns the text that
	// is kept then, "" for none. A caller that gets another text than its own passes that as
	// seen to replace it. With traits "" the call keeps nothing and only looks. After an error
	// it is open whether traits are kept; calling again is harmless.
	KeepTraits(ctx context.Context, name, traits, seen string) (string, error)
}

// Operator has the acts that a person may do to a stored batch. Without it the Runner's Cancel, Requeue,
// Decide and Acquit give [ErrUnsupported], and a batch that needs a decision holds
// its lane until the ledger answers after all.
//
// Each method takes the record that the person saw. Where the batch has another version by now, the method does nothing, and the
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
	// Cancel moves a waiting batch (Queued, Delayed or Unknown) to Rejected, but never while a
	// doubt is open.
	Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
	// Requeue moves an Invalid or Rejected batch back into its lane, in its old place. It ends
	// a quarantine, and does not release the lane. A batch that was given up
	// ([batch.KindGivenUp]) is not requeued: [batch.ErrNotAllowed].
	Requeue(ctx context.Context, seen batch.Record, q Requeue, by batch.By) (batch.Record, error)
	// Decide ends a doubt by what a person found ([batch.Ruling]). The claim must have expired; a Pending or Valid batch must
	// stand as needing a decision. A waiting batch (Delayed or Unknown) may be decided while
	// an earlier attempt is in doubt. No policy follows. Where kept bytes may be sent again for
	// ever, [batch.NotExecutedSendAgain] does not end the doubt, and [batch.NotExecutedReject] is for good
	// (docs/design.md#prepared-bytes).
	Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error)
	// Acquit ends the quarantine of a batch, which stays final as it is.
	Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error)
}

// Controls hold lanes (pause, halt, policy). They are durable, whether a lane has batches or
// not, and count for all instances: every claim reads them. Without it the Runner's Pause,
// Resume, SetPolicy, Release and Control give [ErrUnsupported], and New refuses an Options.Policy
// other than to continue. Record then leaves out [Applied.Enforce]: a lane goes on even while its
// ledger executes a batch and takes it back, again and again.
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

// Inspector is for people who ask why. It changes nothing. Without it the Runner's Explain,
// History, LaneHistory and Attempts give [ErrUnsupported], and Record keeps no reports.
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

// Surveyor is for people who ask, about all lanes at once, which batches stand still and why. It changes
// nothing. A Runner does without it; without it package operator's Causes, Find and bulk actions
// give [ErrUnsupported].
type Surveyor interface {
	// Survey looks at lanes that have open batches, closed ones included, in byte order of
	// services after q.After, or in the order of q.Services. Fewer lanes than q.Limit mean that
	// there are no more; a lane that became empty meanwhile may be among them. Its cost grows with the lanes returned, with the batches in flight in
	// them, with Window and Cap, never with the backlog or with history. It locks nothing.
	Survey(ctx context.Context, q SurveyQuery) (Survey, error)
	// Find returns the record of the batch that q names, open or final, or what its tombstone
	// keeps ([Remains]), or [batch.ErrNotFound].
	Find(ctx context.Context, q FindQuery) (batch.Record, error)
}

// Journal keeps the ids that clients saw in their ledgers' streams of events. It has the
// methods of dlt.Journal. A Runner does without it; a client that wants a dlt.Journal needs one
// from somewhere else, or cannot prove that a batch was not committed. None of the methods keeps
// a slice. A name that is empty,
// longer than [batch.MaxIDLen] bytes or not printable text gives a [*batch.InputError].
// [Pruner] removes old ids, and shortens the span accordingly.
type Journal interface {
	// LeaseStream makes holder the stream's only writer for ttl, which must be positive, on
	// the database's clock, or renews that lease. held is false while another holder has it.
	// Each change of holder, and each lease after an expired one, even by the same holder,
	// gets a higher epoch; a renewal keeps the epoch. A lease that ends later than 2*ttl from
	// now counts as expired: the clock stepped back since. The covered span does not end with a
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
