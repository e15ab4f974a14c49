package dlt

import (
	"fmt"
	"math"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Forever is the ResendHarmlessFor of a ledger that never executes a batch twice.
const Forever = time.Duration(math.MaxInt64)

// DefaultMaxIDs is the MaxIDsPerQuery of traits where that is 0.
const DefaultMaxIDs = 50

// PressureScope is the range that back-pressure slows.
type PressureScope uint8

// The scopes.
const (
	ScopeEndpoint PressureScope = iota // everything that is sent to this ledger
	ScopeService                       // the one service
)

// Traits are the properties that the engine relies on. They also declare which of the methods of
// [Unimplemented] the client has: Resolves, Streams, Checks, Prepares, and MaxList above 1. A
// method that the traits deny is never called.
type Traits struct {
	// Name of the ledger: printable text of at most [batch.MaxIDLen] bytes, in one line. Run
	// records it in the database, and refuses another ledger's.
	Name string
	// ResendHarmlessFor is how long after the first attempt the same batch may be sent again
	// without taking effect twice: 0 means never, [Forever] means always.
	ResendHarmlessFor time.Duration
	// AddAgainHarmless is true if a batch may be added again under its old id at any time, also
	// after the store has forgotten it, without taking effect twice: the ledger itself accepts
	// each id only once, for ever. Where it is false, retention keeps the id of each batch for
	// ever, so false is always safe. AddAgainHarmless promises more than ResendHarmlessFor, which
	// is about the bytes that the store keeps: for a batch that the store has forgotten, a client
	// that prepares bytes would prepare other bytes. So true is refused together with Prepares,
	// and where ResendHarmlessFor is not [Forever] ([Traits.Validate]).
	AddAgainHarmless bool
	// LateArrival is how long a POST may still take effect after its connection ended.
	LateArrival time.Duration
	// Grace is for how long after a submission the answer "no trace" does not prove anything.
	Grace time.Duration
	// ResendQuiet is the time that must have passed since the last POST before a second resend, or
	// a requeue.
	ResendQuiet time.Duration
	// Settle is how long an Invalid batch may still become Committed.
	Settle time.Duration
	// MaxIDsPerQuery bounds one BatchStatuses call; 0 means [DefaultMaxIDs].
	MaxIDsPerQuery int
	// MaxInFlightPerService bounds the batches in flight of one service; batches in submission or
	// in doubt count. It is for strategies with several batches in flight (the serial strategy has
	// one). The bound holds across all processes on a store. 0 means unlimited.
	MaxInFlightPerService int
	// KeepsOrder means that the accepted batches of a service take effect, if they do, as if
	// in the order of acceptance, provided that each Submit waits until the one before it has
	// returned nil. A batch that the ledger later decides against, rolls back or forgets may
	// fall behind; the engine finds and reports that. Splinter keeps order only while its node
	// keeps its queue and nothing is rolled back; a timeout or a crash of one of a circuit's
	// nodes causes a rollback. Strategies that let a batch leave before the one ahead of it is
	// final rely on KeepsOrder.
	KeepsOrder bool
	// MaxList is the largest number of batches of a service in one request. More than 1 means
	// that the client has SubmitList. Lists are made of the runs of a strategy.
	MaxList int
	// MaxListBytes bounds the sum of the payloads of such a list; 0 means unlimited.
	MaxListBytes int
	// GroupsByService means that one BatchStatuses call serves one service only.
	GroupsByService bool
	// PressureScope is the range that ErrBusy slows.
	PressureScope PressureScope
	// Stale is how long a batch may be Pending or Valid before Resolve is asked whether
	// the ledger dropped it; 0 means never.
	Stale time.Duration
	// Vanish is how long a Committed batch may still disappear, on a ledger that forks; 0
	// means never. Whether a ledger forks depends on its consensus: Sawtooth's PBFT and Raft
	// do not, its developer mode does with two or more validators.
	Vanish time.Duration
	// Receipts means that the answer about each Committed batch has receipts, unless the client
	// could not get them in time. The monitor asks once more about a batch whose commit was
	// recorded without receipts ([batch.Attempt].Committed).
	Receipts bool
	// Resolves means that the client has Resolve.
	Resolves bool
	// Streams means that the client has Events.
	Streams bool
	// Checks means that the client has Check.
	Checks bool
	// Prepares means that the client has Prepare.
	Prepares bool
	// Renews means that Prepare is called before each attempt, also where bytes are stored
	// already. Renews has no effect without Prepares.
	Renews bool
	// PreparesInOrder means that the bytes of a batch depend on those of the batches before it,
	// such as the next number of an account: Prepare and Submit get batch.Attempt.Lane. Batches
	// with stored bytes go before all other batches of their lane, in the order of bytes.Compare
	// of these bytes. The ledger executes them in that order, whichever is sent again first
	// (batch.LaneBatch.Numbered). Only strategies with one run of a lane at a time can be used
	// then, queuer.Serial and queuer.Pipelined, unless MaxInFlightPerService is 1. PreparesInOrder
	// has no effect without Prepares.
	PreparesInOrder bool
	// Withdraws means that the client can keep a batch that is under way from taking effect, by
	// bytes that exclude those that were sent before: for an attempt with batch.Attempt.Withdrawn,
	// Prepare appends such bytes to the stored ones and Submit sends them. The statuses say
	// batch.ReportedVoid once these bytes have taken effect. If the batch itself has taken effect,
	// the statuses say so as usual. Withdraws needs Prepares, Renews, and ResendHarmlessFor
	// [Forever].
	Withdraws bool
	// Routed means that the client stands for several ledgers, each with its own Name, and
	// that pressure on one does not affect the others. The client is asked for the traits again
	// before each claim, POST and question: a service whose Name has changed is held. A [Router]
	// sets it.
	Routed bool
	// Ledgers are the names of all ledgers that the client stands for, one on each line:
	// "sawtooth\nbesu". It is "" for a client of one ledger.
	Ledgers string
}

// Validate returns a [*batch.InputError] for traits without a name, and for traits that contradict
// each other.
func (t Traits) Validate() error {
	if t.Name == "" {
		return &batch.InputError{Field: "Traits.Name", Want: "the ledger's name"}
	}
	if err := batch.CheckText("Traits.Name", t.Name, batch.MaxIDLen); err != nil {
		return err
	}
	if t.AddAgainHarmless && (t.Prepares || t.ResendHarmlessFor != Forever) {
		return &batch.InputError{
			Field: "Traits.AddAgainHarmless", Value: fmt.Sprintf("set by the ledger %q", t.Name),
			Want: fmt.Sprintf("false: a batch that the store has forgotten would be sent as a new one (Prepares is %t, ResendHarmlessFor is %s)", t.Prepares, t.ResendHarmlessFor),
		}
	}
	if t.Withdraws && !(t.Prepares && t.Renews && t.ResendHarmlessFor == Forever) {
		return &batch.InputError{
			Field: "Traits.Withdraws", Value: fmt.Sprintf("set by the ledger %q", t.Name),
			Want: fmt.Sprintf("false, or Prepares, Renews and a ResendHarmlessFor of Forever beside it (they are %t, %t and %s)", t.Prepares, t.Renews, t.ResendHarmlessFor),
		}
	}
	return nil
}
