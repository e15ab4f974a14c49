package cantontest

import (
	"fmt"
	"time"
)

// Options of a participant. Nil, or any zero field, means the default. Canton's own
// times are scaled down together where a test cannot wait that long: what matters to
// a client is which is longer than which.
type Options struct {
	// Addr is the host:port to listen on. Defaults to "127.0.0.1:0", any free port.
	Addr string
	// PathPrefix stands before /v2, as a participant's path-prefix. Defaults to "".
	PathPrefix string

	// CompleteAfter is the time from acceptance to the completion. Defaults to 10 ms.
	CompleteAfter time.Duration
	// OffsetStep is how far each completion moves the ledger's end: others use the
	// participant too. Defaults to 1.
	OffsetStep int64

	// MaxDeduplication is max-deduplication-duration; more is refused, and what is left
	// out is this. Defaults to 7 days (docs/ledgers/canton.md#deduplication).
	MaxDeduplication time.Duration
	// DuplicateCompletes answers a duplicate with 200 and a completion of
	// DUPLICATE_COMMAND, rather than with the error. Defaults to false.
	DuplicateCompletes bool

	// ListLimit is http-list-max-elements-limit. Defaults to 200
	// (docs/ledgers/canton.md#completions).
	ListLimit int
	// ListWait is http-list-wait-time, where a request says nothing else. Defaults to 500 ms.
	ListWait time.Duration
	// CheckpointEvery puts a checkpoint behind every so many completions of an answer
	// or stream; they count for the limit. Defaults to 0, none.
	CheckpointEvery int
	// IdleCheckpoint is after how long an idle stream gets a checkpoint. Defaults to 1 min.
	IdleCheckpoint time.Duration
	// OldDetails leaves valueDecoded out of the details of a rejection, as 3.3 does.
	OldDetails bool

	// MaxBody is the body length from which on the answer is a plain 413. Defaults to 10 MiB.
	MaxBody int64
	// Users by token. Nil takes everybody, who then has to name a user in the body
	// (docs/ledgers/canton.md#authorization).
	Users map[string]User
	// Balance of every party at the beginning. Defaults to 1,000,000.
	Balance int64

	// Fault, where it is set, is asked what happens to each request. It is called under
	// the participant's lock and must not call it. See [Participant.SetFault].
	Fault func(Point) Fault
}

// User is who a token stands for.
type User struct {
	ID     string
	ActAs  []string // parties it may submit for and read of
	ReadAs []string // parties it may read of
	// Expired tokens are refused with 401.
	Expired bool
}

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
		{"CompleteAfter", &c.CompleteAfter, 10 * time.Millisecond},
		{"MaxDeduplication", &c.MaxDeduplication, 7 * 24 * time.Hour},
		{"ListWait", &c.ListWait, 500 * time.Millisecond},
		{"IdleCheckpoint", &c.IdleCheckpoint, time.Minute},
	} {
		if *d.d < 0 {
			return Options{}, fmt.Errorf("cantontest: %s (%v) is negative", d.name, *d.d)
		}
		if *d.d == 0 {
			*d.d = d.def
		}
	}
	if c.OffsetStep < 0 || c.ListLimit < 0 || c.CheckpointEvery < 0 || c.MaxBody < 0 || c.Balance < 0 {
		return Options{}, fmt.Errorf("cantontest: OffsetStep (%d), ListLimit (%d), CheckpointEvery (%d), MaxBody (%d), Balance (%d): none may be negative",
			c.OffsetStep, c.ListLimit, c.CheckpointEvery, c.MaxBody, c.Balance)
	}
	if c.OffsetStep == 0 {
		c.OffsetStep = 1
	}
	if c.ListLimit == 0 {
		c.ListLimit = 200
	}
	if c.MaxBody == 0 {
		c.MaxBody = 10 << 20
	}
	if c.Balance == 0 {
		c.Balance = 1_000_000
	}
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	return c, nil
}
