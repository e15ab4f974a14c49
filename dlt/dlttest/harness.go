package dlttest

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Harness is a client and its backend. Each check gets a harness of its own. The funcs may be
// called concurrently, except Set.
type Harness struct {
	// Ledger is the client. The suite also checks the methods of dlt.Unimplemented that its traits
	// declare.
	Ledger dlt.Ledger

	// Batch makes a new batch that the backend commits. Its payload contains content,
	// unchanged or in lower-case hex digits: letters and digits, up to 20 bytes. Batch is called
	// after Set, so that [Decided] and [Refused] may depend on the batch.
	Batch func(service batch.ServiceID, content string) batch.Batch

	// Set makes the backend behave as the fault says from now on, for every client; [None]
	// ends that. It is never called with a fault that the backend Lacks.
	Set func(f Fault)

	// Posts returns how many submissions of the batch reached the backend, accepted or not.
	Posts func(id batch.ID) int

	// LargestQuery returns the largest number of ids in one status query so far. It is nil if
	// the client's queries have one id each, or cannot be counted: then [QuerySize] is
	// lacking.
	LargestQuery func() int

	// Lacks lists the faults that the backend, or its ledger, cannot make, with the reasons.
	Lacks map[Fault]string

	// SwitchedOff lists the methods of dlt.Unimplemented that the client has and its traits deny,
	// by trait ("Streams"), with the reasons: an option switches it off, for example. Any other
	// such method counts as a forgotten trait: the method would never be called.
	SwitchedOff map[string]string

	// Services are two services of the client. Defaults to "one" and "two".
	Services []batch.ServiceID
	// RetryAfter is the RetryAfter of a [Busy] backend. Defaults to nothing.
	RetryAfter time.Duration
	// CommitTimeout is the longest time from acceptance to the answer that a batch is committed.
	// Defaults to 10 s.
	CommitTimeout time.Duration
	// CancelTimeout is the longest time that a call may last after its context is done. Defaults
	// to 2 s.
	CancelTimeout time.Duration
}

// Fault is something that a backend does wrong, or [QuerySize], which it may be unable to do.
type Fault string

// Faults of submissions.
const (
	None Fault = "" // no fault
	// Busy: not accepted, try later.
	Busy Fault = "busy"
	// Refused: this batch is refused for good.
	Refused Fault = "refused"
	// Unreachable: nobody listens.
	Unreachable Fault = "unreachable"
	// Misconfigured: every submission of this client is refused.
	Misconfigured Fault = "misconfigured"
	// NotYet: this batch cannot be accepted now, and nothing is said of others.
	NotYet Fault = "not yet"
	// LostRequest: the connection ends before the batch is accepted. If you can choose, close
	// the connection here and reset it in LostReply: clients see two different errors.
	LostRequest Fault = "lost request"
	// LostReply: the batch is accepted, and the connection ends before the answer.
	LostReply Fault = "lost reply"
	// Hang: no answer until the client leaves. The backend may accept the batch or not.
	Hang Fault = "hang"
	// UnknownAnswer: an answer that no document of the ledger knows. Not accepted.
	UnknownAnswer Fault = "unheard answer"
	// Redirect: the client is asked to send the batch to another address, where it would be
	// accepted and counted.
	Redirect Fault = "redirect"
	// Decided: the batch is accepted, and then decided against.
	Decided Fault = "decided against"
)

// Faults of status queries. Batches that were committed before stay committed.
const (
	// StatusUnreachable: nobody listens.
	StatusUnreachable Fault = "status unreachable"
	// StatusLost: the connection ends before the answer.
	StatusLost Fault = "status lost"
	// StatusHang: no answer until the client leaves.
	StatusHang Fault = "status hang"
	// StatusGarbage: an answer that cannot be read.
	StatusGarbage Fault = "status garbage"
	// StatusUnknownWord: a word that no document of the ledger knows, about one of the ids.
	StatusUnknownWord Fault = "status word"
	// StatusMissing: an answer that misses one of the ids.
	StatusMissing Fault = "status missing"
	// StatusStranger: an answer with a committed id that was not in the query.
	StatusStranger Fault = "status stranger"
	// StatusShuffled: the answers stand in another order than the ids.
	StatusShuffled Fault = "status shuffled"
)

// StreamCut ends the open event streams, without a goodbye. Only backends of clients that
// stream get it.
const StreamCut Fault = "stream cut"

// QuerySize is lacking where Harness.LargestQuery is nil.
const QuerySize Fault = "query size"

// Faults returns all faults except [None].
func Faults() []Fault {
	return []Fault{
		Busy, Refused, Unreachable, Misconfigured, NotYet, LostRequest, LostReply, Hang, UnknownAnswer, Redirect, Decided,
		StatusUnreachable, StatusLost, StatusHang, StatusGarbage, StatusUnknownWord, StatusMissing, StatusStranger, StatusShuffled,
		QuerySize, StreamCut,
	}
}

// withDefaults returns a copy without zero values.
func (h *Harness) withDefaults() *Harness {
	c := *h
	if len(c.Services) == 0 {
		c.Services = []batch.ServiceID{"one", "two"}
	}
	if c.CommitTimeout == 0 {
		c.CommitTimeout = 10 * time.Second
	}
	if c.CancelTimeout == 0 {
		c.CancelTimeout = 2 * time.Second
	}
	return &c
}
