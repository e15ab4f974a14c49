package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Choose picks the batches to take from a lane. It is pure and quick, is called inside the
// claiming transaction, and must not call the store. A claim ignores a position whose batch is not
// claimable and ready.
type Choose func(lane batch.Lane) []batch.Run

// LanesQuery asks for services that have open batches.
type LanesQuery struct {
	// After is the last service of the previous call. Start means that there was no previous call,
	// because the service "" is a service like any other.
	After batch.ServiceID
	Start bool
	Limit int // the largest number of services; must be positive
}

// ClaimQuery asks for batches.
type ClaimQuery struct {
	Lanes []batch.ServiceID // the claim looks at the lanes in this order
	Limit int               // the largest number of batches
	// Bytes bounds the bytes of payloads that a claim takes. A batch that exceeds the bound is
	// taken only if it is the first of its lane, and then no lane after it is taken
	// ([Claimed.Add]). 0 is no bound.
	Bytes  int
	Window int           // the number of waiting batches of a lane that choose sees; 0 counts as 1
	TTL    time.Duration // how long the claims last, on the database's clock
	// Budget is the budget of batches that have none of their own; nil is unlimited.
	Budget func(batch.ServiceID) batch.Budget
	// Instance is the name of the claiming instance: printable, at most [batch.MaxInstanceLen]
	// bytes.
	Instance string
	// Salt is added to the version that each claim of this call writes. It is a random number for
	// each call, so that no other claim of a batch, by any process, has the same version. A caller
	// that does not learn whether a claim was committed puts the claim back by its version (see
	// [Store].Claim). 0 is for callers that wait instead until the claim expires.
	Salt uint32
	// StuckAfter is how long a batch may be open without moving. A claim puts off the deadline of
	// a batch that nobody could claim for long. 0 means that batches have no deadline.
	StuckAfter time.Duration
	// Resend returns the lane's declaration, asked once for each lane; nil means that no
	// resend is ever harmless.
	Resend func(batch.ServiceID) Resend
	// MaxInFlight returns how many batches of a lane may be under way at once: Submitting, in
	// doubt, Pending, Valid, or Invalid and not settled. 0 or less is no bound. A claim calls
	// MaxInFlight once for each lane. A nil MaxInFlight is no bound for any lane.
	MaxInFlight func(batch.ServiceID) int
	// Numbered reports whether the prepared bytes of a lane's batches determine the order in which
	// these must be sent: batches that keep bytes go first, in the order of bytes.Compare. A nil
	// Numbered means no for all lanes.
	Numbered func(batch.ServiceID) bool
	// Wants returns how many waiting batches choose can use, given the attempted batches of the
	// lane. choose must pick the same batches from that many as from more, up to Window, so a
	// claim shows no more. Waiting batches may come before attempted batches that wait again.
	// Wants is as pure as choose. A batch that is not shown because of Wants does not put its lane
	// into Left. A nil Wants means Window for each lane.
	Wants func(attempted batch.Lane) int
}

// budget returns own, or the query's budget of the service if own is the zero value.
func (q ClaimQuery) budget(s batch.ServiceID, own batch.Budget) batch.Budget {
	if own == (batch.Budget{}) && q.Budget != nil {
		return q.Budget(s)
	}
	return own
}

func (q ClaimQuery) isNumbered(s batch.ServiceID) bool { return q.Numbered != nil && q.Numbered(s) }

// Claimed is the result of a Claim. Together with an error it is the claims that may have been
// made.
type Claimed struct {
	Runs []ClaimedRun
	// Locked are the lanes that another claim held. The caller tries them again.
	Locked []batch.ServiceID
	// Left are the lanes that the claim did not look at, or not to their end, because of Limit. A
	// lane that MaxInFlight holds back is not in Left: it goes on when one of its batches is
	// final.
	Left []batch.ServiceID
	// NextReady is the time until the first batch of these lanes that waits for its NotBefore
	// becomes ready; 0 if none does.
	NextReady time.Duration
	// Payloads are the payloads that came with the claim, by [Ref].Row; nil where the payload
	// is gone. The caller does not ask [Store].Payloads for these.
	Payloads map[int64][]byte
}

// Add adds the plan of a lane. left is how many batches the claim may still take; Add returns how
// many it may take after this lane. If it may take none, because of Limit or because the payloads
// have reached Bytes, the lanes after this one are Left. Add subtracts the payloads from q.Bytes.
func (c *Claimed) Add(service batch.ServiceID, p Plan, q *ClaimQuery, left int) int {
	c.Runs = append(c.Runs, p.Runs...)
	if p.More {
		c.Left = append(c.Left, service)
	}
	if p.NextReady > 0 && (c.NextReady == 0 || p.NextReady < c.NextReady) {
		c.NextReady = p.NextReady
	}
	if q.Bytes > 0 {
		if q.Bytes -= p.Bytes; q.Bytes <= 0 {
			return 0
		}
	}
	return left - p.Claims
}

// ClaimedRun is a run: batches of one lane that are posted one after the other.
type ClaimedRun struct {
	Service batch.ServiceID
	Batches []Claim
	// Prepared are the prepared bytes of the lane's open batches that are not in the run, if
	// [ClaimQuery].Numbered is true for the lane.
	Prepared [][]byte
}

// InDoubtAfter returns the first batch after the i-th of the run that has an unresolved earlier
// attempt, or "". A ledger that forgets its commits may have executed that attempt although it has
// no trace of it, so the i-th batch may come behind that batch.
func (r ClaimedRun) InDoubtAfter(i int) batch.ID {
	for _, c := range r.Batches[i+1:] {
		if c.Doubt {
			return c.Key.ID
		}
	}
	return ""
}

// Claim is the right to make one attempt.
type Claim struct {
	Ref
	Version  int64       // the version that the claim has written; the claim's outcome names it
	From     batch.State // the state to which a batch that was not posted returns
	Attempt  int
	Spent    int // the spent attempts; includes this attempt if Budget.EveryTry is set
	Failures int // the number of certain failures in a row before this attempt
	Budget   batch.Budget
	// Doubt is true if an earlier attempt is unresolved.
	Doubt bool
	// Again is true if an earlier attempt was accepted, or may have been, and nobody has requeued
	// the batch since. On a ledger that keeps the order of submission other batches may have gone
	// ahead: see [Ahead].
	Again bool
	// Prepared are the bytes that an earlier attempt kept; nil if none are kept.
	Prepared []byte
	// Withdrawn is true if a person has withdrawn the batch.
	Withdrawn bool
	// Was is what the claim's outcome has as [Outcome].Was.
	Was *Row
}
