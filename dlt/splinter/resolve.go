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

// maxPromptAnswer is the longest time in which the answer to a query counts. A slower answer comes
// from a node that was stalled or frozen, in which an earlier POST may still wait: the question is
// asked again.
const maxPromptAnswer = 2 * time.Second

// Resolve implements [dlt.Ledger]. It asks the node once, about the batch and its witnesses, and
// then the journal of the service's events. A batch in the journal was committed; NotCommitted
// needs a proof of docs/splinter-evidence.md. If there is no answer yet, Resolve asks for the
// node's receipts, and then Options.Evidence. The error is a [*dlt.Error], the journal's, or
// Options.Evidence's.
//
// docs/splinter-evidence.md gives the reasons behind each proof.
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	start := time.Now()
	p, err := c.locate(d.Service)
	if err != nil {
		return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrMisconfigured, Err: err}
	}
	if !isID(string(d.ID)) {
		return dlt.CannotTell, nil // a query with such an id would get no answer
	}
	ids := []batch.ID{d.ID}
	for _, w := range d.Witnesses {
		if len(ids) < maxIDs && isID(string(w)) && !slices.Contains(ids, w) {
			ids = append(ids, w)
		}
	}
	answers, err := c.ask(ctx, p, ids)
	k := doubtFacts{doubt: d, elapsed: time.Since(start), resolveRules: c.rules()}
	for _, a := range answers {
		if a.ID == d.ID {
			k.ownAnswer = a
		} else {
			k.witnesses = append(k.witnesses, a)
		}
	}
	if k.ownAnswer.Reported == batch.ReportedCommitted {
		return dlt.Committed, nil
	}
	if err != nil {
		return dlt.CannotTell, err
	}
	k.validFor = c.validSince.timeValid(d.Service, d.ID, time.Now())
	if c.options.Journal != nil {
		found, err := c.options.Journal.FindStream(ctx, streamName(d.Service), transactionIDs(d.Payload))
		if err != nil {
			return dlt.CannotTell, &dlt.Error{Op: opResolve, Kind: dlt.ErrUnavailable, Err: c.redactError(err)}
		}
		k.log, k.hasLog = found, len(transactionIDs(d.Payload)) > 0
	}
	// At least this time has passed since d was made, which only makes its spans longer.
	k.elapsed = time.Since(start)
	if found := k.evidence(); found != dlt.CannotTell || k.ownAnswer.Reported == 0 {
		return found, nil
	}
	// Everything read below is read after the node's answer, and is durable.
	if err := c.askForReceipts(ctx, p, d, &k); err != nil {
		return dlt.CannotTell, err
	}
	if found := k.evidence(); found != dlt.CannotTell || c.options.Evidence == nil {
		return found, nil
	}
	k.stateEvidence, err = c.options.Evidence(ctx, State{client: c, location: p}, d)
	if err != nil {
		return dlt.CannotTell, err
	}
	return k.evidence(), nil
}

// askForReceipts asks for the node's receipts, but seldom for those of one batch: an answer that
// proved nothing will do so again. An error means that the node could not be asked. If the node
// refuses to answer, nothing is known.
func (c *Client) askForReceipts(ctx context.Context, p location, d dlt.Doubt, k *doubtFacts) (err error) {
	if !c.receiptQueries.claimTurn(d.Key, min(receiptQueryInterval, c.options.LateArrival), time.Now()) {
		return nil
	}
	defer func() {
		if err != nil && !errors.Is(err, dlt.ErrUnavailable) {
			err = nil
		}
		if err != nil || k.receipts == receiptsPresent || (k.receipts == receiptsMissing && k.needsAgreement) {
			c.receiptQueries.forget(d.Key)
		}
	}()
	k.receipts, err = c.receiptsOf(ctx, p, transactionIDs(d.Payload))
	if err == nil && k.receipts == receiptsMissing {
		k.needsAgreement, err = c.needsAgreement(ctx, p)
	}
	return err
}

// receiptQueryInterval is the time between two queries for the receipts of one batch.
const receiptQueryInterval = time.Minute

func (c *Client) rules() resolveRules {
	return resolveRules{
		lateArrival: c.options.LateArrival, staleAfter: c.traits.Stale, margin: c.options.ClockMargin,
		maxLogAge: c.options.ClockMargin + 2*c.options.ProbeInterval,
	}
}

type resolveRules struct {
	lateArrival, staleAfter, margin time.Duration
	maxLogAge                       time.Duration // a log whose end is no older than this is being written
}

// doubtFacts is everything known about a doubt.
type doubtFacts struct {
	resolveRules
	doubt          dlt.Doubt
	ownAnswer      answer
	witnesses      []answer
	validFor       time.Duration // for how long every answer to this process was Valid
	log            batch.StreamFound
	hasLog         bool          // true if there is a log, and the batch has transactions to look for
	elapsed        time.Duration // from the call of Resolve until node and journal have answered
	receipts       receiptState
	needsAgreement bool         // true if another service must reach the same state
	stateEvidence  dlt.Evidence // the result of Options.Evidence
}

// evidence returns the evidence that the facts prove. It is pure.
func (k *doubtFacts) evidence() dlt.Evidence {
	d := k.doubt
	// A batch is committed as a whole, or not at all (scabbard's state/mod.rs executes it in
	// its own schedule, where one invalid transaction fails all): any of its transactions is
	// proof. This proof beats the node's answer, because a second copy may have made the batch
	// Pending or Invalid (docs/ledgers/splinter.md#the-same-bytes-again).
	if k.hasLog && len(k.log.IDs) > 0 || k.receipts == receiptsPresent {
		return dlt.Committed
	}
	switch k.ownAnswer.Reported {
	case batch.ReportedCommitted:
		return dlt.Committed
	case batch.ReportedPending:
		// Queued, or silently dropped: no answer shows which of them.
		return dlt.InFlight
	case batch.ReportedValid:
		if k.validFor < k.staleAfter || d.Ended < k.staleAfter {
			return dlt.InFlight
		}
	case batch.ReportedUnknown, batch.ReportedInvalid:
	default:
		return dlt.CannotTell // there is no answer about the batch
	}
	// The last POST may still be on its way to the history: in the node's buffers, or
	// behind the locks of a stalled service.
	if d.Ended < k.lateArrival {
		return dlt.InFlight
	}
	absent := k.isMissingInLog()
	switch k.ownAnswer.Reported {
	case batch.ReportedUnknown:
		if k.elapsed > maxPromptAnswer {
			return dlt.InFlight
		}
		// The history is in the order in which the node first saw the batches, and another POST of
		// a batch does not move it. So a batch that an earlier attempt has put there may have been
		// evicted while the witness is still known, and with it the outcome of the last attempt.
		if d.Number == 1 && k.wasNeverSeen() {
			return dlt.NotCommitted
		}
		// Otherwise the batch was evicted, or the node restarted. If it was evicted while it was
		// queued (version 1 has no limit except the client's), it may yet be executed: LateArrival
		// must cover that queue, and the log must reach beyond it.
	case batch.ReportedInvalid:
		// One POST means one execution, which had no effect. After a second POST the status may be
		// about the copy, while the original is committed
		// (docs/ledgers/splinter.md#the-same-bytes-again) or another copy is queued.
		if d.Number == 1 {
			return dlt.NotCommitted
		}
	case batch.ReportedValid:
		// After that time as Valid, its two-phase commit was over. The log must reach beyond that.
		if k.log.Until+k.margin > k.validFor-k.staleAfter {
			absent = false
		}
	}
	// A node writes a batch's effect first and its receipts afterwards. If it dies in between it
	// has only the effect, and has not reported it to its peers, which will therefore refuse the
	// batch when it comes again. A node without peers has no service that refuses the batch.
	if !absent && k.willLogReach() {
		return dlt.InFlight
	}
	if absent || (k.receipts == receiptsMissing && k.needsAgreement) {
		return dlt.NotCommitted
	}
	return k.stateEvidence
}

// wasNeverSeen reports whether the node still knows a witness: a batch that it saw before the
// first unresolved attempt. A node forgets batches in the order of first sight, also at a restart,
// and records a batch before it queues or forwards it (docs/ledgers/splinter.md#submitting,
// docs/ledgers/splinter.md#statuses). So if the node does not know this batch, it has never seen
// it.
//
// A witness that was resubmitted after a restart is seen again, later. So if the answers carry
// times, all of the node's own clock, the witness's first sight must be at least as old as the
// doubt was when the node answered.
func (k *doubtFacts) wasNeverSeen() bool {
	for _, w := range k.witnesses {
		if w.Reported == batch.ReportedUnknown || w.Reported == 0 {
			continue
		}
		if w.firstSeen.IsZero() || k.ownAnswer.firstSeen.IsZero() || k.ownAnswer.firstSeen.Sub(w.firstSeen) >= k.doubt.Since+k.elapsed {
			return true
		}
	}
	return false
}

// isMissingInLog reports whether none of the transactions was committed: they are not in a log
// without a gap that begins before the first unresolved attempt, and ends after the last could
// have taken effect. The ages come from several clocks, read one after another, and the database
// dates an entry when it is written. The margin covers all this.
func (k *doubtFacts) isMissingInLog() bool {
	return k.hasLog && k.log.Covered &&
		k.log.Since >= k.doubt.Since+k.elapsed+k.margin &&
		k.log.Until+k.margin <= k.doubt.Ended-k.lateArrival
}

// willLogReach reports whether the log is being written and will soon reach far enough: when
// LateArrival ends, the log is still a few seconds behind.
func (k *doubtFacts) willLogReach() bool {
	begun := k.log.Since - k.margin - k.elapsed
	return k.log.Covered && k.hasLog && k.receipts == receiptsUnknown && begun >= k.doubt.Since && k.log.Until <= k.maxLogAge &&
		k.doubt.Ended-k.lateArrival <= k.maxLogAge+k.margin
}
