package sawtoothtest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// Faults to inject. Rates are probabilities from 0 to 1. The fault of a request is drawn from
// (Seed, the first batch id, the n-th such request of that id), not from a stream: the same
// seed gives the same faults, no matter what else goes on.
type Faults struct {
	Seed uint64

	// Faults of a POST of batches, one at most; their sum is at most 1.
	Hang        float64 // no answer until the client leaves; accepted in half of the cases
	ResetBefore float64 // the connection is reset, and nothing is accepted
	ResetAfter  float64 // the connection is reset, but the batch is accepted
	ErrorBefore float64 // 500, 502, 503 or 504, not accepted
	ErrorAfter  float64 // 500, 502, 503 or 504, accepted
	Late        float64 // reset or 503/17, and accepted up to MaxLateDelay afterwards
	Truncated   float64 // the batch is accepted, but the answer ends in the middle
	NonJSON     float64 // accepted; 202 with a page that is not JSON
	Busy        float64 // 429/31, not accepted
	SendFailed  float64 // 408/19, not accepted

	// Faults of a status query, one at most; their sum is at most 1.
	StatusHang, StatusReset, StatusError, StatusTruncated, StatusNonJSON float64

	// Latency delays any request by up to MaxLatency before the node reads it, so that requests
	// overtake one another. Latency comes in addition to the other faults.
	Latency float64
	// MaxLatency is the longest delay for Latency. Defaults to 50 ms.
	MaxLatency time.Duration
	// MaxLateDelay is the longest delay for Late. Defaults to 200 ms.
	MaxLateDelay time.Duration

	// Overtake is the probability that a batch of the pool is executed ahead of the batch before
	// it, if they do not conflict and it does not depend on that batch
	// (docs/ledgers/sawtooth.md#order).
	Overtake float64

	// Faults of an accepted batch. See [BatchFault].
	Lose, LatePending, FalseInvalid, Reexecute float64
	// LatePendingDelay is the delay for LatePending. Defaults to 500 ms.
	LatePendingDelay time.Duration

	// MaxPerBatch ends the faults of requests for an id after this many requests of one kind.
	// Defaults to 0, no bound.
	MaxPerBatch int

	// Request, if set, is called first; any result except the zero Fault is the fault. It is
	// called under the node's lock and must not call the node.
	Request func(RequestPoint) Fault
	// Batch, if set, is called first for the faults of an accepted batch, as Request is for those
	// of a request. try is how often the batch was accepted, from 1.
	Batch func(id batch.ID, try int) BatchFault
}

// Operation is the kind of a request.
type Operation string

// The operations that can have faults.
const (
	OpSubmit   Operation = "submit"
	OpStatuses Operation = "statuses"
	OpLookup   Operation = "lookup" // any other request; its faults come from Faults.Request alone
)

// RequestPoint is a place where a fault can happen.
type RequestPoint struct {
	Operation Operation
	Batches   []batch.ID // the batches of the request; for statuses, the requested ids
	Try       int        // number of this request among the operation's for Batches[0], from 1
}

// Answer is what the node answers where a fault happens.
type Answer uint8

// The answers.
const (
	AnswerProperly Answer = iota
	AnswerNever           // no answer until the client leaves
	AnswerReset           // the connection is reset
	AnswerError           // Status, and Code where it is not 0
	AnswerTruncated
	AnswerNonJSON
)

// Acceptance says whether batches reach the validator although the answer is AnswerNever,
// AnswerReset or AnswerError.
type Acceptance uint8

// The values of Acceptance.
const (
	NotAccepted Acceptance = iota
	AcceptedFirst
	AcceptedLate // accepted after the answer, or after the end of the connection
)

// Fault changes the course of one request. The zero value means no fault.
type Fault struct {
	Delay       time.Duration // before the node reads the request; a client that leaves meanwhile has sent nothing
	Answer      Answer
	Status      int // HTTP status for AnswerError
	Code        int // the node's own code; 0 gives a page that is not JSON, like a proxy's
	Acceptance  Acceptance
	AcceptAfter time.Duration
}

// BatchFault is a fault of an accepted batch.
type BatchFault struct {
	// Lose makes the node forget the batch after it has accepted it. Before CacheTime only a
	// restart makes the node accept it again.
	Lose bool
	// PublishDelay is added to Options.PublishDelay for this batch, and so for all behind it.
	PublishDelay time.Duration
	// FalseInvalid makes the node report the batch INVALID once and execute it again
	// Options.ReexecuteAfter later, as if the head had changed
	// (docs/ledgers/sawtooth.md#statuses).
	FalseInvalid bool
	// Reexecute keeps the batch in the pool when it is INVALID.
	Reexecute bool
}

func (f *Faults) check() error {
	simnode.SetDefault(&f.MaxLatency, 50*time.Millisecond)
	simnode.SetDefault(&f.MaxLateDelay, 200*time.Millisecond)
	simnode.SetDefault(&f.LatePendingDelay, 500*time.Millisecond)
	if err := simnode.CheckRates(
		f.submitRates(), f.statusRates(), []float64{f.Latency}, []float64{f.Overtake}, []float64{f.Lose}, []float64{f.LatePending}, []float64{f.FalseInvalid}, []float64{f.Reexecute},
	); err != nil {
		return fmt.Errorf("sawtoothtest: %w", err)
	}
	return nil
}

func (f *Faults) submitRates() []float64 {
	return []float64{f.Hang, f.ResetBefore, f.ResetAfter, f.ErrorBefore, f.ErrorAfter, f.Late, f.Truncated, f.NonJSON, f.Busy, f.SendFailed}
}

func (f *Faults) statusRates() []float64 {
	return []float64{f.StatusHang, f.StatusReset, f.StatusError, f.StatusTruncated, f.StatusNonJSON}
}

// drawRequest draws the fault of one request. f may be nil.
func (f *Faults) drawRequest(p RequestPoint) Fault {
	if f == nil {
		return Fault{}
	}
	if f.Request != nil {
		if x := f.Request(p); x != (Fault{}) {
			return x
		}
	}
	if len(p.Batches) == 0 || (f.MaxPerBatch > 0 && p.Try > f.MaxPerBatch) {
		return Fault{}
	}
	d := simnode.Draw{Seed: f.Seed, Subject: string(p.Batches[0]), Try: p.Try, Salt: string(p.Operation)}
	var x Fault
	if d.Float("latency") < f.Latency {
		x.Delay = d.UpTo("how long", f.MaxLatency)
	}
	switch p.Operation {
	case OpSubmit:
		f.drawSubmit(&x, d)
	case OpStatuses:
		switch simnode.Pick(f.statusRates(), d.Float("kind")) {
		case 0:
			x.Answer = AnswerNever
		case 1:
			x.Answer = AnswerReset
		case 2:
			x.drawAmbiguousError(d)
		case 3:
			x.Answer = AnswerTruncated
		case 4:
			x.Answer = AnswerNonJSON
		}
	}
	return x
}

func (f *Faults) drawSubmit(x *Fault, d simnode.Draw) {
	switch simnode.Pick(f.submitRates(), d.Float("kind")) {
	case 0:
		x.Answer = AnswerNever
		if d.Float("taken") < 0.5 {
			x.Acceptance = AcceptedFirst
		}
	case 1:
		x.Answer = AnswerReset
	case 2:
		x.Answer, x.Acceptance = AnswerReset, AcceptedFirst
	case 3:
		x.drawAmbiguousError(d)
	case 4:
		x.drawAmbiguousError(d)
		x.Acceptance = AcceptedFirst
	case 5:
		x.Answer, x.Acceptance, x.AcceptAfter = AnswerReset, AcceptedLate, d.UpTo("late by", f.MaxLateDelay)
		if d.Float("reset") < 0.5 {
			x.Answer, x.Status, x.Code = AnswerError, http.StatusServiceUnavailable, codeTimedOut
		}
	case 6:
		x.Answer = AnswerTruncated
	case 7:
		x.Answer = AnswerNonJSON
	case 8:
		x.Answer, x.Status, x.Code = AnswerError, http.StatusTooManyRequests, codeQueueFull
	case 9:
		x.Answer, x.Status, x.Code = AnswerError, http.StatusRequestTimeout, codeSendBackoff
	}
}

// drawAmbiguousError sets one of the ambiguous answers of docs/ledgers/sawtooth.md#submitting, or
// a proxy's.
func (f *Fault) drawAmbiguousError(d simnode.Draw) {
	all := [...]Fault{
		{Status: http.StatusInternalServerError, Code: codeUnknownError},
		{Status: http.StatusInternalServerError, Code: codeResponseInvalid},
		{Status: http.StatusInternalServerError},
		{Status: http.StatusBadGateway},
		{Status: http.StatusServiceUnavailable, Code: codeTimedOut},
		{Status: http.StatusServiceUnavailable, Code: codeDisconnected},
		{Status: http.StatusGatewayTimeout},
	}
	pick := all[int(d.Float("which")*float64(len(all)))]
	f.Answer, f.Status, f.Code = AnswerError, pick.Status, pick.Code
}

// drawBatch draws the fault of a batch after its try-th acceptance. f may be nil.
func (f *Faults) drawBatch(id batch.ID, try int) BatchFault {
	if f == nil {
		return BatchFault{}
	}
	if f.Batch != nil {
		if x := f.Batch(id, try); x != (BatchFault{}) {
			return x
		}
	}
	d := simnode.Draw{Seed: f.Seed, Subject: string(id), Try: try, Salt: "batch"}
	var x BatchFault
	x.Lose = d.Float("lose") < f.Lose
	if d.Float("late") < f.LatePending {
		x.PublishDelay = d.UpTo("pending", f.LatePendingDelay)
	}
	x.FalseInvalid = d.Float("false") < f.FalseInvalid
	x.Reexecute = d.Float("again") < f.Reexecute
	return x
}
