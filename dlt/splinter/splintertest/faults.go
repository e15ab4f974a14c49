package splintertest

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

	// Faults of a POST, one at most; their sum is at most 1.
	Hang        float64 // no answer until the client leaves; accepted in half of the cases
	ResetBefore float64 // the connection is reset, and nothing is accepted
	ResetAfter  float64 // the connection is reset, but the batch is accepted
	ErrorBefore float64 // 500, 502 or 504, not accepted
	ErrorAfter  float64 // 500, 502 or 504, accepted
	Late        float64 // the connection is reset, and the batch accepted up to MaxLateDelay later
	Busy        float64 // 429, not accepted

	// Faults of a status query, one at most; their sum is at most 1.
	StatusHang, StatusReset, StatusError, StatusTruncated float64

	// Latency delays any request by up to MaxLatency before the node reads it.
	Latency float64
	// MaxLatency is the longest delay for Latency. Defaults to 50 ms.
	MaxLatency time.Duration
	// MaxLateDelay is the longest delay for Late. Defaults to 200 ms.
	MaxLateDelay time.Duration

	// Faults of an accepted batch. See [BatchFault]. Crash kills a node at one of the moments
	// that [CrashPoint] names, all equally likely.
	Lose, Reject, Evict, Crash float64

	// DownTime is how long a killed node is down. Defaults to 0: it starts again at once.
	DownTime time.Duration

	// LoseResume makes the network lose the message after which the coordinator's peers answer no
	// more 429s.
	LoseResume bool
	// MaxPerBatch ends the faults of an id after this many requests of one kind. Defaults to
	// 0, no bound.
	MaxPerBatch int

	// Request, if set, is called first; any result except the zero Fault is the fault. It is
	// called under the network's lock and must not call the network.
	Request func(RequestPoint) Fault
	// Batch, if set, is called first for the faults of an accepted batch, as Request is for those
	// of a request. try is the number of POSTs of the batch so far.
	Batch func(id batch.ID, try int) BatchFault
}

// Operation is the kind of a request.
type Operation string

// The operations.
const (
	OpSubmit   Operation = "submit"
	OpStatuses Operation = "statuses"
	OpEvents   Operation = "events" // its faults come from Faults.Request alone
	OpState    Operation = "state"  // a request for state; it needs authorization, and has no fault
)

// RequestPoint is a place where a fault can happen.
type RequestPoint struct {
	Operation Operation
	Service   batch.ServiceID
	Batches   []batch.ID // the batches of the request; for statuses, the requested ids
	Try       int        // number of this request among the operation's for Batches[0], from 1
}

// Answer is what the node answers where a fault happens.
type Answer uint8

// The answers.
const (
	AnswerProperly  Answer = iota
	AnswerNever            // no answer until the client leaves
	AnswerReset            // the connection is reset
	AnswerError            // Status and Body
	AnswerTruncated        // the answer ends in the middle
)

// Acceptance says whether a batch is queued although the answer is AnswerNever, AnswerReset or
// AnswerError.
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
	Status      int    // HTTP status for AnswerError
	Body        string // body for AnswerError
	Acceptance  Acceptance
	AcceptAfter time.Duration
}

// BatchFault is a fault of an accepted batch.
type BatchFault struct {
	Lose   bool // the batch stays Pending for ever: the message to the coordinator was lost
	Reject bool // the proposal is rolled back, and the batch stays Valid for ever
	Evict  bool // the service at once forgets it and all earlier batches; it is still executed
	Crash  CrashPoint
}

func (f *Faults) check() error {
	simnode.SetDefault(&f.MaxLatency, 50*time.Millisecond)
	simnode.SetDefault(&f.MaxLateDelay, 200*time.Millisecond)
	if err := simnode.CheckRates(
		f.submitRates(), f.statusRates(), []float64{f.Latency}, []float64{f.Lose}, []float64{f.Reject}, []float64{f.Evict}, []float64{f.Crash},
	); err != nil {
		return fmt.Errorf("splintertest: %w", err)
	}
	return nil
}

func (f *Faults) submitRates() []float64 {
	return []float64{f.Hang, f.ResetBefore, f.ResetAfter, f.ErrorBefore, f.ErrorAfter, f.Late, f.Busy}
}

func (f *Faults) statusRates() []float64 {
	return []float64{f.StatusHang, f.StatusReset, f.StatusError, f.StatusTruncated}
}

func (f *Faults) losesResume() bool { return f != nil && f.LoseResume }

func (f *Faults) seed() uint64 {
	if f == nil {
		return 0
	}
	return f.Seed
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
	case 6:
		x.Answer, x.Status = AnswerError, http.StatusTooManyRequests
	}
}

// drawAmbiguousError picks the ambiguous answer of docs/ledgers/splinter.md#submitting, or a
// proxy's.
func (f *Fault) drawAmbiguousError(d simnode.Draw) {
	all := [...]int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout}
	f.Answer, f.Status = AnswerError, all[int(d.Float("which")*float64(len(all)))]
}

// drawBatch draws the fault of a batch after its try-th POST. f may be nil.
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
	x := BatchFault{
		Lose: d.Float("lose") < f.Lose, Reject: d.Float("reject") < f.Reject, Evict: d.Float("evict") < f.Evict,
	}
	if d.Float("crash") < f.Crash {
		x.Crash = CrashAfterProposal + CrashPoint(5*d.Float("where"))
	}
	return x
}
