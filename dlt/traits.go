package dlt

import (
	"math"
	"time"
)

// Forever is the ResendHarmlessFor of a ledger that never executes a batch twice.
const Forever = time.Duration(math.MaxInt64)

// DefaultMaxIDs is the MaxIDsPerQuery of traits that have none.
const DefaultMaxIDs = 50

// Scope says whom back-pressure slows.
type Scope uint8

// The scopes.
const (
	ScopeEndpoint Scope = iota // everything that is sent to this ledger
	ScopeService               // the one service
)

// Traits is what can be relied on. What Traits denies is never called, and a client whose
// traits say more than it has methods for is refused ([CheckAbilities]).
type Traits struct {
	// Name of the ledger. It is recorded in the database by Run, which refuses another's.
	Name string
	// ResendHarmlessFor is how long after the first attempt the same batch may be
	// sent again without taking effect twice: 0 never, [Forever] always.
	ResendHarmlessFor time.Duration
	// LateArrival is how long after its connection ended a POST may still take effect.
	LateArrival time.Duration
	// Grace is how long after a submission "no trace" still means nothing.
	Grace time.Duration
	// ResendQuiet must have passed since the last POST before a second resend, or a requeue.
	ResendQuiet time.Duration
	// Settle is how long an Invalid may still become Committed.
	Settle time.Duration
	// MaxIDsPerQuery bounds one BatchStatuses call; 0 is [DefaultMaxIDs].
	MaxIDsPerQuery int
	// MaxInFlightPerService bounds what is under way of one service, what is being
	// submitted or in doubt included, for strategies that have several under way (the
	// serial one has one). It holds across all processes on a store. 0 is unlimited.
	MaxInFlightPerService int
	// KeepsOrder says that what the ledger accepts of a service takes effect, where it
	// does at all, as if in the order in which it was accepted, as long as each Submit
	// waits for the one before it to return nil. One that it decides against, rolls back
	// or forgets after all may fall behind: that is found out, and reported. On Splinter
	// order is kept only while nothing is rolled back, which a timeout or a crash of one of
	// a circuit's nodes does, and while its node does not lose its queue. Strategies that let a
	// batch leave before the one ahead of it is final rely on it.
	KeepsOrder bool
	// MaxList is how many batches of a service one request may carry, at most; more than 1
	// says that the client is a [ListSubmitter]. Lists are made of the runs of a strategy.
	MaxList int
	// MaxListBytes bounds the payloads of such a list together; 0 is unlimited.
	MaxListBytes int
	// GroupsByService says that one BatchStatuses call serves one service only.
	GroupsByService bool
	// PressureScope says whom ErrBusy slows.
	PressureScope Scope
	// Stale is how long a batch may be Pending or Valid before a [Resolver] is asked
	// whether it was dropped; 0 is never.
	Stale time.Duration
	// Vanish is how long a Committed may still disappear, on a ledger that forks; 0 is never.
	// Whether a ledger forks is up to its consensus: Sawtooth's PBFT and Raft do not, and
	// its developer mode does from the second validator on.
	Vanish time.Duration
	// Resolves says that the client is a [Resolver].
	Resolves bool
	// Streams says that the client is an [EventSource].
	Streams bool
	// Checks says that the client is a [Checker].
	Checks bool
	// Prepares says that the client is a [Preparer].
	Prepares bool
	// Routed says that the client stands for several ledgers, each with a Name of its own,
	// and that what slows one is none of another's. A [Router] sets it.
	Routed bool
}
