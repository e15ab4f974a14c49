package cantontest

import (
	"fmt"
	"time"
)

// Options of a participant. Nil, or any zero field, means the default. If a test cannot wait
// for Canton's own times, scale them down together: only their order matters to a client.
type Options struct {
	// Addr is the host:port to listen on. Defaults to "127.0.0.1:0", any free port.
	Addr string

	// CompleteAfter is the time from acceptance to the completion. Defaults to 10 ms.
	CompleteAfter time.Duration
	// OffsetStep is how far each completion moves the ledger's end: real participants have other
	// users, whose completions have offsets, too. Defaults to 1.
	OffsetStep int64

	// MaxDeduplication is max-deduplication-duration. A longer period is refused; a missing
	// period means this one. Defaults to 7 days (docs/ledgers/canton.md#deduplication).
	MaxDeduplication time.Duration
	// DuplicateCompletes answers a duplicate with 200 and a completion of
	// DUPLICATE_COMMAND, rather than with the error. Defaults to false.
	DuplicateCompletes bool

	// ListLimit is http-list-max-elements-limit. Defaults to 200
	// (docs/ledgers/canton.md#completions).
	ListLimit int
	// ListWait is http-list-wait-time, for requests without their own. Defaults to 500 ms.
	ListWait time.Duration
	// CheckpointEvery is how many completions of an answer or stream come between two
	// checkpoints; checkpoints count for the limit. Defaults to 0, none.
	CheckpointEvery int
	// IdleCheckpoint is how long a stream must be idle to get a checkpoint. Defaults to 1 min.
	IdleCheckpoint time.Duration
	// OldDetails leaves valueDecoded out of the details of a rejection, as Canton 3.3 does.
	OldDetails bool

	// MaxBody is the shortest body length that gets a plain 413. Defaults to 10 MiB.
	MaxBody int64
	// Users are the users of the participant, by their tokens. Nil accepts everybody; the body
	// must then name a user (docs/ledgers/canton.md#authorization).
	Users map[string]User
	// Balance of every party at the beginning. Defaults to 1,000,000.
	Balance int64

	// Fault, if set, returns the fault of each request. It is called under the participant's
	// lock and must not call it. See [Participant.SetFault].
	Fault func(RequestPoint) Fault
}

// User is the owner of a token.
type User struct {
	ID     string
	ActAs  []string // parties that it may submit for and read
	ReadAs []string // parties it may read of
	// TokenExpired says that the token of the user has expired: it is refused with 401.
	TokenExpired bool
}

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
		{"CompleteAfter", &c.CompleteAfter, 10 * time.Millisecond},
		{"MaxDeduplication", &c.MaxDeduplication, 7 * 24 * time.Hour},
		{"ListWait", &c.ListWait, 500 * time.Millisecond},
		{"IdleCheckpoint", &c.IdleCheckpoint, time.Minute},
	} {
		if *d.d < 0 {
			return Options{}, fmt.Errorf("cantontest: %s (%v) is negative", d.name, *d.d)
		}
		if *d.d == 0 {
			*d.d = d.defaultValue
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
