package sawtoothtest

import (
	"fmt"
	"time"
)

// Options of a node. Nil, or any zero field, means the default. If a test cannot wait for
// Sawtooth's own times, scale them down together: only their order matters to a client.
type Options struct {
	// Addr is the host:port to listen on. With a fixed port a test reaches a later node at the
	// same address. Defaults to "127.0.0.1:0", any free port.
	Addr string
	// InMemory listens on no socket: only [Node.Client] reaches the node. It is for tests in a
	// bubble of testing/synctest. Defaults to false.
	InMemory bool

	// BlockInterval is the time between blocks. The node makes no empty blocks. Defaults to
	// 100 ms.
	BlockInterval time.Duration
	// MaxBatchesPerBlock bounds one block. Defaults to 0, unlimited.
	MaxBatchesPerBlock int
	// PublishDelay is how long after its 202 an accepted batch stays UNKNOWN before it is PENDING.
	// While ten batches are in the pool, some batches take longer, up to BlockInterval (by
	// Faults.Seed). Negative means none. Defaults to 0: an idle Sawtooth 1.2.6 answers PENDING at
	// once.
	PublishDelay time.Duration
	// PoolLimit is the pool length at which submissions start to get 429/31
	// (docs/ledgers/sawtooth.md#back-pressure). Defaults to Sawtooth's own rule: ten times the
	// average block, 300 at the start.
	PoolLimit int

	// CacheTime is how long a batch is remembered after its last POST. Until then the same
	// bytes are answered 202 and ignored (docs/ledgers/sawtooth.md#the-same-bytes-again).
	// Defaults to 1200 s.
	CacheTime time.Duration
	// LazyPurge makes the cache forget old entries only when a new one is added, as Sawtooth does:
	// while no other batch comes, the same bytes are ignored for ever. Otherwise each entry is
	// forgotten after CacheTime.
	LazyPurge bool
	// ParkTime is how long a batch waits for an unknown dependency
	// (docs/ledgers/sawtooth.md#dependencies). Defaults to CacheTime.
	ParkTime time.Duration
	// InvalidTime is the shortest time for which INVALID is remembered after the last query
	// for it: it is forgotten only when another batch becomes invalid
	// (docs/ledgers/sawtooth.md#statuses). It is also how long a batch may wait and still be
	// reported INVALID (docs/ledgers/sawtooth.md#pending-for-ever, P4). Defaults to 600 s.
	InvalidTime time.Duration
	// ReexecuteAfter is how long a batch that is executed again (see [BatchFault]) waits after
	// a failed execution; then it takes the next block. Defaults to 0.
	ReexecuteAfter time.Duration

	// RESTTimeout is how long the REST API waits for the validator before it answers 503/17
	// (docs/ledgers/sawtooth.md#submitting). Defaults to 300 s.
	RESTTimeout time.Duration
	// MaxBody is the shortest body length that gets a 413
	// (docs/ledgers/sawtooth.md#requests-and-limits). Defaults to 10 MiB.
	MaxBody int64

	// StartTime is how long a validator needs to start; requests wait for it. Defaults to 65 %
	// of BlockInterval: a real node with a block a second took 0.65 s.
	StartTime time.Duration
	// NoGenesis starts without a chain: POSTs are answered 202 and their batches are PENDING,
	// and reads from the chain's head get 503/15, until [Node.Genesis].
	NoGenesis bool

	// Families that the node executes. A batch with a transaction of another family halts the
	// whole node when its block is due: no more blocks, and POSTs of batches are answered
	// 503/17, until [Node.AddFamily] starts a processor for it. The liveness probe, lookups
	// and statuses go on. Defaults to [IntKey].
	Families []Family
	// PermitsSigner reports whether policy permits a signer, of a batch or a transaction. A list
	// with any other signer is refused with 30 (docs/ledgers/sawtooth.md#submitting). Defaults
	// to everybody.
	PermitsSigner func(publicKey string) bool

	// SkipVerify trusts signatures and payload digests, for benchmarks.
	SkipVerify bool
	// Faults to inject. Defaults to none.
	Faults *Faults
}

// Family names the transactions that a processor serves.
type Family struct{ Name, Version string }

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	for _, d := range [...]struct {
		name         string
		d            *time.Duration
		defaultValue time.Duration
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
			*d.d = d.defaultValue
		}
	}
	if c.ParkTime == 0 {
		c.ParkTime = c.CacheTime
	}
	if c.StartTime == 0 {
		c.StartTime = c.BlockInterval * 65 / 100
	}
	c.PublishDelay = max(c.PublishDelay, 0)
	if c.MaxBatchesPerBlock < 0 || c.PoolLimit < 0 || c.MaxBody < 0 {
		return Options{}, fmt.Errorf("sawtoothtest: MaxBatchesPerBlock (%d), PoolLimit (%d), MaxBody (%d): none may be negative",
			c.MaxBatchesPerBlock, c.PoolLimit, c.MaxBody)
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
