package dlttest

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Harness is a client and the backend it talks to. Each check gets one of its own.
// The funcs may be called concurrently, but for Set.
type Harness struct {
	// Ledger is the client. What its traits say that it can do beside (dlt.Resolver,
	// dlt.EventSource, dlt.Checker, dlt.Preparer, dlt.ListSubmitter) is checked too.
	Ledger dlt.Ledger

	// Batch makes a batch that was never there before and that the backend commits.
	// Its payload holds content as it is: letters and digits, up to 20 bytes. It is
	// called after Set, so that [Decided] and [Refused] may be a matter of the batch.
	Batch func(service batch.ServiceID, content string) batch.Batch

	// Set makes the backend behave as the fault says from now on, whoever asks;
	// [None] ends it. It is never called with what the backend Lacks.
	Set func(f Fault)

	// Posts is how many submissions of the batch reached the backend, taken or not.
	Posts func(id batch.ID) int

	// LargestQuery is how many ids one status query held at most. Nil where the
	// client's queries hold one each, or cannot be counted: [QuerySize] is lacking then.
	LargestQuery func() int

	// Lacks is what the backend, or the ledger that it stands for, cannot do, and why.
	Lacks map[Fault]string

	// Off is what the client has a method for and its traits deny for a service, by the
	// trait ("Streams"), and why: an option switches it off, say. Otherwise such a method
	// is one whose trait was forgotten, and which is never called.
	Off map[string]string

	// Services are two the client can serve. Defaults to "one" and "two".
	Services []batch.ServiceID
	// RetryAfter is what the backend sends when it is [Busy]. Defaults to nothing.
	RetryAfter time.Duration
	// Commit is the longest from acceptance to the answer that a batch is committed.
	// Defaults to 10 s.
	Commit time.Duration
	// Prompt is the longest that a call may last after its context is done. Defaults to 2 s.
	Prompt time.Duration
}

// Fault is what a backend does wrong, or the one thing that it may be unable to do.
type Fault string

// Faults of submissions.
const (
	None Fault = "" // all is well
	// Busy: not taken, try later.
	Busy Fault = "busy"
	// Refused: this batch is refused for good.
	Refused Fault = "refused"
	// Unreachable: nobody listens.
	Unreachable Fault = "unreachable"
	// Misconfigured: this client is refused, whatever it sends.
	Misconfigured Fault = "misconfigured"
	// LostRequest: the connection ends before the batch is taken. Where there is a
	// choice, close it here and reset it in LostReply: clients see two errors.
	LostRequest Fault = "lost request"
	// LostReply: the batch is taken, and the connection ends before the answer.
	LostReply Fault = "lost reply"
	// Hang: no answer until the client leaves. Taken or not, as the backend likes.
	Hang Fault = "hang"
	// Unheard: an answer that no document of the ledger knows. Not taken.
	Unheard Fault = "unheard answer"
	// Redirect: the client is asked to send the batch elsewhere, where it would be
	// taken and counted.
	Redirect Fault = "redirect"
	// Decided: the batch is accepted, and then decided against.
	Decided Fault = "decided against"
)

// Faults of status queries. What was committed before stays so.
const (
	// StatusUnreachable: nobody listens.
	StatusUnreachable Fault = "status unreachable"
	// StatusLost: the connection ends before the answer.
	StatusLost Fault = "status lost"
	// StatusHang: no answer until the client leaves.
	StatusHang Fault = "status hang"
	// StatusGarbage: an answer that cannot be read.
	StatusGarbage Fault = "status garbage"
	// StatusWord: a word that no document of the ledger knows, about one of the ids.
	StatusWord Fault = "status word"
	// StatusMissing: an answer in which one of the ids is missing.
	StatusMissing Fault = "status missing"
	// StatusStranger: an answer in which an id is committed that nobody asked about.
	StatusStranger Fault = "status stranger"
	// StatusShuffled: the answers stand in another order than the ids.
	StatusShuffled Fault = "status shuffled"
)

// StreamCut ends the streams of events that are open, without a goodbye. Only backends
// of clients that stream are asked for it.
const StreamCut Fault = "stream cut"

// QuerySize is lacking where Harness.LargestQuery is nil.
const QuerySize Fault = "query size"

// Faults lists all of them but [None].
func Faults() []Fault {
	return []Fault{
		Busy, Refused, Unreachable, Misconfigured, LostRequest, LostReply, Hang, Unheard, Redirect, Decided,
		StatusUnreachable, StatusLost, StatusHang, StatusGarbage, StatusWord, StatusMissing, StatusStranger, StatusShuffled,
		QuerySize, StreamCut,
	}
}

// withDefaults returns a copy without zero values.
func (h *Harness) withDefaults() *Harness {
	c := *h
	if len(c.Services) == 0 {
		c.Services = []batch.ServiceID{"one", "two"}
	}
	if c.Commit == 0 {
		c.Commit = 10 * time.Second
	}
	if c.Prompt == 0 {
		c.Prompt = 2 * time.Second
	}
	return &c
}
