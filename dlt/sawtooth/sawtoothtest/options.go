package sawtoothtest

import (
	"fmt"
	"time"
)

// Options of a node. Nil, or any zero field, means the default. Sawtooth's own
// times are scaled down together where a test cannot wait that long: what
// matters to a client is which is longer than which.
type Options struct {
	// Addr is the host:port to listen on. A fixed port serves tests that come back
	// at the same address. Defaults to "127.0.0.1:0", any free port.
	Addr string
	// InMemory listens on no socket: only [Node.Client] reaches the node. For tests
	// in a bubble of testing/synctest. Defaults to false.
	InMemory bool

	// BlockInterval is the time between blocks. Blocks without a batch are not
	// made. Defaults to 100 ms.
	BlockInterval time.Duration
	// MaxBatchesPerBlock bounds one block. Defaults to 0, unlimited.
	MaxBatchesPerBlock int
	// PublishDelay is how long after its 202 an accepted batch stays UNKNOWN before
	// it is PENDING; while ten are in the pool some take longer, up to
	// BlockInterval (by Faults.Seed). Negative is none. Defaults to 0: an idle Sawtooth
	// 1.2.6 answers PENDING at once.
	PublishDelay time.Duration
	// PoolLimit is the pool length from which on submits are answered 429/31
	// (docs/ledgers/sawtooth.md#back-pressure). Defaults to Sawtooth's own rule: ten times the
	// average block, 300 at the start.
	PoolLimit int

	// CacheTime is how long a batch is remembered after the last POST of it; until
	// then the same bytes are answered 202 and ignored
	// (docs/ledgers/sawtooth.md#the-same-bytes-again). Defaults to 1200 s.
	CacheTime time.Duration
	// LazyPurge makes the cache forget only when something else is added to it, as
	// Sawtooth does (section D): then a lone batch is ignored for ever. Otherwise it forgets on time.
	LazyPurge bool
	// ParkTime is how long a batch waits for a dependency nobody has seen
	// (docs/ledgers/sawtooth.md#dependencies). Defaults to CacheTime.
	ParkTime time.Duration
	// InvalidTime is how long INVALID is remembered after it was last asked for, at
	// least: it is forgotten only when another batch becomes invalid
	// (docs/ledgers/sawtooth.md#statuses). It is also how long a batch may wait and still be
	// reported INVALID (docs/ledgers/sawtooth.md#pending-for-ever, P4). Defaults to 600 s.
	InvalidTime time.Duration
	// ReexecuteAfter is how long after a failed execution a batch that is executed
	// again (see [BatchFault]) waits; then it takes the next block. Defaults to 0.
	ReexecuteAfter time.Duration

	// RESTTimeout is when the REST API gives up on the validator with 503/17
	// (docs/ledgers/sawtooth.md#submitting). Defaults to 300 s.
	RESTTimeout time.Duration
	// ClientThreads is how many waiting status queries stall everybody
	// (docs/ledgers/sawtooth.md#asking-for-statuses). Defaults to 5.
	ClientThreads int
	// MaxBody is the body length from which on the answer is 413
	// (docs/ledgers/sawtooth.md#requests-and-limits). Defaults to 10 MiB.
	MaxBody int64

	// StartTime is how long a validator takes to be up when it is started again;
	// requests wait for it. Defaults to 65 % of BlockInterval: a node with a block a
	// second was seen to take 0.65 s.
	StartTime time.Duration
	// NoGenesis begins without a chain: POSTs are answered 202 and their batches are
	// PENDING, and what is read from the chain's head is 503/15, until [Node.Genesis].
	NoGenesis bool

	// Families that the node executes. A batch with a transaction of any other halts
	// the whole node when its block is to be made: no blocks any more, and POSTs of
	// batches are answered 503/17, until [Node.AddFamily] starts a processor for it.
	// The liveness probe, lookups and statuses go on. Defaults to [IntKey].
	Families []Family
	// Permitted says whether a signer, of a batch or a transaction, is permitted by
	// policy; a list with one that is not is refused with 30
	// (docs/ledgers/sawtooth.md#submitting). Defaults to everybody.
	Permitted func(publicKey string) bool

	// SkipVerify takes signatures and payload digests on trust, for benchmarks.
	SkipVerify bool
	// NoJournal keeps no journal, for benchmarks.
	NoJournal bool

	// Faults to inject. Defaults to none.
	Faults *Faults
}

// Family names what a transaction processor serves.
type Family struct{ Name, Version string }

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	for _, d := range [...]struct {
		name string
		d    *time.Duration
		def  time.Duration
	}{
		{"BlockInterval", &c.BlockInterval, 100 * time.Millisecond},
		{"CacheTime", &c.CacheTime, 1200 * time.Second},
		{"InvalidTime", &c.InvalidTime, 600 * time.Second},
		{"RESTTimeout", &c.RESTTimeout, 300 * time.Second},
		{"ReexecuteAfter", &c.ReexecuteAfter, 0},
		{"ParkTime", &c.ParkTime, 0},
		{"StartTime", &c.StartTime, 0},
	} {
		if *d.d < 0 {
			return Options{}, fmt.Errorf("sawtoothtest: %s (%v) is negative", d.name, *d.d)
		}
		if *d.d == 0 {
			*d.d = d.def
		}
	}
	if c.ParkTime == 0 {
		c.ParkTime = c.CacheTime
	}
	if c.StartTime == 0 {
		c.StartTime = c.BlockInterval * 65 / 100
	}
	c.PublishDelay = max(c.PublishDelay, 0)
	if c.MaxBatchesPerBlock < 0 || c.PoolLimit < 0 || c.ClientThreads < 0 || c.MaxBody < 0 {
		return Options{}, fmt.Errorf("sawtoothtest: MaxBatchesPerBlock (%d), PoolLimit (%d), ClientThreads (%d), MaxBody (%d): none may be negative",
			c.MaxBatchesPerBlock, c.PoolLimit, c.ClientThreads, c.MaxBody)
	}
	if c.ClientThreads == 0 {
		c.ClientThreads = 5
	}
	if c.MaxBody == 0 {
		c.MaxBody = 10 << 20
	}
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.Families == nil {
		c.Families = []Family{IntKey}
	}
	if c.Faults != nil {
		f := *c.Faults
		if err := f.check(); err != nil {
			return Options{}, err
		}
		c.Faults = &f
	}
	return c, nil
}
