package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Choose is asked what to take from a lane. It is pure and quick, runs inside the
// claiming transaction, and must not call the store. A position that is not
// claimable and ready is ignored.
type Choose func(lane batch.Lane) []batch.Run

// Resend is what a ledger declares about sending again.
type Resend struct {
	HarmlessFor time.Duration
	LateArrival time.Duration
}

// Allows reports whether a claim of ttl may send a batch again, of which a resend stays
// harmless for left: the POST may start when the claim ends, and take LateArrival to arrive.
// Whoever asks whether a batch may be sent again asks here (docs/design.md#how-a-claim-works).
func (r Resend) Allows(left, ttl time.Duration) bool {
	return left >= r.LateArrival && left-r.LateArrival >= ttl // their sum may be too large
}

// LanesQuery asks for services that have open batches.
type LanesQuery struct {
	// After is the last service of the call before; Start says that there was none
	// ("" is a service like any other).
	After batch.ServiceID
	Start bool
	Limit int // at most; must be positive
}

// ClaimQuery asks for batches.
type ClaimQuery struct {
	Lanes  []batch.ServiceID // looked at in this order
	Limit  int               // batches at most
	Window int               // queued batches of a lane shown to choose, at least 1
	TTL    time.Duration     // of the claims, on the database's clock
	// Budget counts for batches that have none of their own; nil is unlimited.
	Budget func(batch.ServiceID) batch.Budget
	// Instance names who claims: printable, at most [batch.MaxInstanceLen] bytes.
	Instance string
	// Salt is by how much more than one the claims of this call raise versions: a number drawn
	// at random for each call, so that no other claim of a batch, whoever makes it, has the
	// same version. Whoever does not hear whether a claim was committed puts it back by its
	// version (see [Engine].Claim); 0 is for those who leave that to its end.
	Salt uint32
	// Resend is asked once for each lane; nil means that nothing is ever harmless.
	Resend func(batch.ServiceID) Resend
	// MaxInFlight is how many batches of a lane may be under way at once, what is
	// Submitting, in doubt, Pending, Valid, or Invalid and not settled; 0 or less is no
	// bound. It is asked once for each lane; nil is no bound for any.
	MaxInFlight func(batch.ServiceID) int
	// Wants is asked how many batches that wait choose can make use of beside those of a lane
	// that were attempted, which it is shown: choose picks the same whether it sees so many
	// or more, up to Window. They may come in front of what was attempted and waits again.
	// So choose is shown no more. Wants is as pure as choose, and what it holds back is not
	// left. Nil is Window for each lane.
	Wants func(attempted batch.Lane) int
}

// budget is what counts for a batch of which own is its own.
func (q ClaimQuery) budget(s batch.ServiceID, own batch.Budget) batch.Budget {
	if own == (batch.Budget{}) && q.Budget != nil {
		return q.Budget(s)
	}
	return own
}

// Claimed is what a Claim took, or, beside an error, what it may have taken.
type Claimed struct {
	Runs []ClaimedRun
	// Locked lanes were held by another claim: try them again.
	Locked []batch.ServiceID
	// Left lanes were not looked at, or not to their end, because of Limit. What
	// MaxInFlight holds back is not left: it leaves when something of its lane is final.
	Left []batch.ServiceID
	// NextReady is how long until the first batch of these lanes that waits for its
	// not-before time becomes ready; 0 where none does.
	NextReady time.Duration
	// Payloads are, by [Ref].Row, those that came with the claim; nil is one that is gone.
	// Of these [Engine].Payloads is not asked.
	Payloads map[int64][]byte
}

// ClaimedRun is batches of one lane that are posted one after the other.
type ClaimedRun struct {
	Service batch.ServiceID
	Batches []Claim
}

// Claim is the right to make one attempt.
type Claim struct {
	Ref
	Version  int64       // as raised by the claim; its outcome carries it
	From     batch.State // where an unposted batch is put back to
	Attempt  int
	Spent    int // this attempt included where every try spends
	Failures int // certain failures in a row before this attempt
	Budget   batch.Budget
	// Doubt says that an earlier attempt is unresolved.
	Doubt bool
	// Again says that an earlier attempt was accepted, or may have been, and that nobody
	// requeued the batch since. Where the ledger keeps the order of submission others may
	// have gone ahead: see [Ahead].
	Again bool
	// Prepared is what an earlier attempt kept, nil for none.
	Prepared []byte
	// Was is for the claim's outcome: [Outcome].Was.
	Was *Row
}
