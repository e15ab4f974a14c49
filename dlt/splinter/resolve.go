package splinter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

const opResolve = "resolve"

// prompt is the longest that a question may take. An answer that took longer comes
// from a node that was stalled or frozen until just now, and a POST from before may
// be waiting in it beside the question: ask again.
const prompt = 2 * time.Second

// Resolve implements [dlt.Resolver]. It asks the node once, about the batch and its
// witnesses, and then the journal of the service's events. A batch that is in that
// was committed; NotCommitted needs one of the proofs that judge names. Only where these
// leave it open does it ask for the node's receipts, and last Options.Evidence. The error
// is a [*dlt.Error], the journal's, or that of Options.Evidence.
//
// docs/splinter-evidence.md says what each proof rests on.
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	start := time.Now()
	p, err := c.place(d.Service)
	if err != nil {
		return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrMisconfigured, Err: err}
	}
	if !isID(string(d.ID)) {
		return dlt.CannotTell, nil // no question about it would have an answer
	}
	ids := []batch.ID{d.ID}
	for _, w := range d.Witnesses {
		if len(ids) < maxIDs && isID(string(w)) && !slices.Contains(ids, w) {
			ids = append(ids, w)
		}
	}
	answers, err := c.ask(ctx, p, ids)
	k := knowledge{doubt: d, elapsed: time.Since(start), rules: c.rules()}
	for _, a := range answers {
		if a.ID == d.ID {
			k.own = a
		} else {
			k.witnesses = append(k.witnesses, a)
		}
	}
	if k.own.Reported == batch.ReportedCommitted {
		return dlt.Committed, nil
	}
	if err != nil {
		return dlt.CannotTell, err
	}
	k.validFor = c.valid.age(d.Service, d.ID, time.Now())
	if c.o.Journal != nil {
		found, err := c.o.Journal.FindStream(ctx, streamName(d.Service), transactionIDs(d.Payload))
		if err != nil {
			return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrUnavailable, Err: c.cause(err)}
		}
		k.log, k.logged = found, len(transactionIDs(d.Payload)) > 0
	}
	// Since d was put together at least so much has passed, which only makes its spans longer.
	k.elapsed = time.Since(start)
	if found := k.judge(); found != dlt.CannotTell || k.own.Reported == 0 {
		return found, nil
	}
	// What is read from here on is read after the node's answer, and is durable.
	if err := c.lookUp(ctx, p, d, &k); err != nil {
		return dlt.CannotTell, err
	}
	if found := k.judge(); found != dlt.CannotTell || c.o.Evidence == nil {
		return found, nil
	}
	k.applied, err = c.o.Evidence(ctx, State{client: c, place: p}, d)
	if err != nil {
		return dlt.CannotTell, err
	}
	return k.judge(), nil
}

// lookUp asks for the node's receipts, about one batch once in a while: an answer that left
// it open will do so again. An error says that the node could not be asked. Where it refuses
// to answer, nothing is known.
func (c *Client) lookUp(ctx context.Context, p place, d dlt.Doubt, k *knowledge) (err error) {
	if !c.lookedUp.due(d.Key, min(lookUpEvery, c.o.LateArrival), time.Now()) {
		return nil
	}
	defer func() {
		if err != nil && !errors.Is(err, dlt.ErrUnavailable) {
			err = nil
		}
		if err != nil || k.receipts == receiptsThere || (k.receipts == receiptsMissing && k.agrees) {
			c.lookedUp.forget(d.Key)
		}
	}()
	k.receipts, err = c.receiptsOf(ctx, p, transactionIDs(d.Payload))
	if err == nil && k.receipts == receiptsMissing {
		k.agrees, err = c.agrees(ctx, p)
	}
	return err
}

// lookUpEvery is the time between two questions about the receipts of one batch.
const lookUpEvery = time.Minute

func (c *Client) rules() rules {
	return rules{
		lateArrival: c.o.LateArrival, stale: c.traits.Stale, margin: c.o.Margin,
		fresh: c.o.Margin + 2*c.o.ProbeInterval,
	}
}

type rules struct {
	lateArrival, stale, margin time.Duration
	fresh                      time.Duration // a log that is no older is being written
}

// knowledge is all that is known of a doubt.
type knowledge struct {
	rules
	doubt     dlt.Doubt
	own       answer
	witnesses []answer
	validFor  time.Duration // how long every answer to this process has been Valid
	log       batch.StreamFound
	logged    bool          // there is a log, and the batch has transactions to look for
	elapsed   time.Duration // since Resolve was called, until node and journal had answered
	receipts  receipts
	agrees    bool         // another service must come to the same state
	applied   dlt.Evidence // what Options.Evidence says
}

// judge says what follows. It is pure.
func (k *knowledge) judge() dlt.Evidence {
	d := k.doubt
	// A batch is committed as a whole, or not at all (scabbard's state/mod.rs executes
	// it in a schedule of its own, where one invalid transaction fails all): any of its
	// transactions is proof. It stands above whatever the node says, for a second copy
	// may have made it Pending or Invalid (docs/ledgers/splinter.md#the-same-bytes-again).
	if k.logged && len(k.log.IDs) > 0 || k.receipts == receiptsThere {
		return dlt.Committed
	}
	switch k.own.Reported {
	case batch.ReportedCommitted:
		return dlt.Committed
	case batch.ReportedPending:
		// Queued, or dropped without a word: nothing tells which.
		return dlt.InFlight
	case batch.ReportedValid:
		if k.validFor < k.stale || d.Ended < k.stale {
			return dlt.InFlight
		}
	case batch.ReportedUnknown, batch.ReportedInvalid:
	default:
		return dlt.CannotTell // no answer about it
	}
	// The last POST may still be on its way to the history: in the node's buffers, or
	// behind the locks of a stalled service.
	if d.Ended < k.lateArrival {
		return dlt.InFlight
	}
	absent := k.absent()
	switch k.own.Reported {
	case batch.ReportedUnknown:
		if k.elapsed > prompt {
			return dlt.InFlight
		}
		// The place of a batch in the history is that of its first sight, which another POST
		// of it does not refresh. One that an earlier attempt brought there may have been
		// evicted before the witness, whatever became of the last attempt.
		if d.Number == 1 && k.witnessed() {
			return dlt.NotCommitted
		}
		// Else evicted, or the node restarted. Evicted while it was queued (version 1
		// has no bound but our own), it may be executed yet: LateArrival must cover that
		// queue, and the log below must reach beyond.
	case batch.ReportedInvalid:
		// One POST, one execution, and that had no effect. After a second POST this may
		// be about the copy, with the original committed
		// (docs/ledgers/splinter.md#the-same-bytes-again) or another copy queued.
		if d.Number == 1 {
			return dlt.NotCommitted
		}
	case batch.ReportedValid:
		// Its two-phase commit was over when it had been Valid for so long. The log must
		// have been complete at that time.
		if k.log.Until+k.margin > k.validFor-k.stale {
			absent = false
		}
	}
	// A node writes a batch's effect first and its receipts then: one that died in between
	// has the one without the other. It has not told its peers, then, which will therefore
	// refuse the batch when it comes again. Where it has none, nobody refuses it.
	if !absent && k.awaits() {
		return dlt.InFlight
	}
	if absent || (k.receipts == receiptsMissing && k.agrees) {
		return dlt.NotCommitted
	}
	return k.applied
}

// witnessed reports that the node still knows a batch which it saw before the first
// unresolved attempt. It forgets the first seen first, restarts included, and marks a
// batch before it queues or forwards it (docs/ledgers/splinter.md#submitting,
// docs/ledgers/splinter.md#statuses): so it has never seen this one.
//
// A witness that was resubmitted after a restart would be seen later than that; so
// where the answers carry times, all of the node's own clock, its first sight must
// be as old as the doubt, which has grown older until the node answered.
func (k *knowledge) witnessed() bool {
	for _, w := range k.witnesses {
		if w.Reported == batch.ReportedUnknown || w.Reported == 0 {
			continue
		}
		if w.first.IsZero() || k.own.first.IsZero() || k.own.first.Sub(w.first) >= k.doubt.Since+k.elapsed {
			return true
		}
	}
	return false
}

// absent reports that none of the transactions was committed: they are not in a log
// without a gap that begins before the first unresolved attempt, and ends after
// the last could have taken effect. Ages are taken by several clocks' rates and a
// moment after one another, and an entry is dated by when the database wrote it: the
// margin, which bounds the writing too, is for that.
func (k *knowledge) absent() bool {
	return k.logged && k.log.Covered &&
		k.log.Since >= k.doubt.Since+k.elapsed+k.margin &&
		k.log.Until+k.margin <= k.doubt.Ended-k.lateArrival
}

// awaits reports that the log is being written and will soon reach far enough: at the end
// of LateArrival it is still a few seconds behind.
func (k *knowledge) awaits() bool {
	begun := k.log.Since - k.margin - k.elapsed
	return k.log.Covered && k.logged && k.receipts == receiptsUnknown && begun >= k.doubt.Since && k.log.Until <= k.fresh &&
		k.doubt.Ended-k.lateArrival <= k.fresh+k.margin
}
