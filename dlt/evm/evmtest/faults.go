package evmtest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// Faults to inject. Rates are probabilities from 0 to 1. The fault of a request is drawn from
// (Seed, its method and first parameter, the n-th such request), not from a stream: the same seed
// gives the same faults, no matter what else goes on.
type Faults struct {
	Seed uint64

	// Faults of eth_sendRawTransaction, one at most; their sum is at most 1.
	Hang        float64 // no answer until the client leaves; accepted in half of the cases
	ResetBefore float64 // the connection is reset, and nothing is accepted
	ResetAfter  float64 // the connection is reset, but the transaction is accepted
	ErrorBefore float64 // 502, 503 or 504 with a page of HTML, not accepted
	ErrorAfter  float64 // 502, 503 or 504 with a page of HTML, accepted
	TimeoutText float64 // -32002 request timed out, accepted
	Late        float64 // the connection is reset; accepted up to MaxLateDelay later
	Busy        float64 // 429, or -32005 with a text, each in half of the cases; not accepted

	// Faults of every other request, one at most; their sum is at most 1.
	QueryHang, QueryReset, QueryError, QueryBusy, QueryTruncated float64

	// Behind is the probability that the node answers a question as a node that is up to MaxBehind
	// blocks behind.
	Behind float64
	// MaxBehind is the largest number of blocks for Behind. Defaults to 3.
	MaxBehind int

	// Latency delays any request by up to MaxLatency before the node reads it, so that requests
	// overtake one another. Latency comes in addition to the other faults.
	Latency float64
	// MaxLatency is the longest delay for Latency. Defaults to 50 ms.
	MaxLatency time.Duration
	// MaxLateDelay is the longest delay for Late. Defaults to 200 ms.
	MaxLateDelay time.Duration

	// Drop is the probability that the node accepts a transaction, answers with its hash, and
	// forgets it.
	Drop float64

	// Faults of a block, drawn from (Seed, its number and the number of blocks made before).

	// Reorg is the probability, for each new block, that other blocks then replace the last ones,
	// at most ReorgDepth of them.
	Reorg float64
	// ReorgDepth is the largest number of blocks that a Reorg replaces. Defaults to 3.
	ReorgDepth int

	// MaxTries ends the faults of a request after this many requests of the same method and first
	// parameter. Defaults to 0, no bound.
	MaxTries int

	// Request, if set, is called first; any result except the zero Fault is the fault. It is
	// called under the node's lock and must not call the node.
	Request func(RequestPoint) Fault
}

// RequestPoint is a place where a fault can happen: an HTTP request.
type RequestPoint struct {
	// Method is the method of the request, or of the first in an array.
	Method string
	// Param is the first parameter of Method: for a sent transaction the hash of the bytes,
	// otherwise the text as it came; "" without a parameter.
	Param string
	// Requests is the number of requests in the array, 1 without an array.
	Requests int
	// Try counts the requests of this method and parameter, from 1.
	Try int
}

// Answer is what the node answers where a fault happens.
type Answer uint8

// The answers.
const (
	AnswerProperly  Answer = iota
	AnswerNever            // no answer until the client leaves
	AnswerReset            // the connection is reset
	AnswerPage             // Status, with a page of HTML
	AnswerError            // the JSON-RPC error Code and Text, with Status where it is not 0
	AnswerTruncated        // the answer ends in the middle
)

// Acceptance says whether the node accepts a transaction although the answer is none of
// AnswerProperly and AnswerTruncated.
type Acceptance uint8

// The values of Acceptance.
const (
	NotAccepted   Acceptance = iota
	AcceptedFirst            // before the answer, or the end of the connection
	AcceptedLate             // Fault.AcceptAfter after the answer, or the end of the connection
)

// Fault changes the course of one request. The zero value means no fault.
type Fault struct {
	Delay       time.Duration // before the node reads the request; a client that leaves meanwhile has sent nothing
	Answer      Answer
	Status      int           // HTTP status of AnswerPage and AnswerError
	RetryAfter  time.Duration // header Retry-After of AnswerPage and AnswerError, in whole seconds
	Code        int           // error code of AnswerError
	Text        string        // error text of AnswerError
	Acceptance  Acceptance    // AnswerProperly and AnswerTruncated mean accepted, whatever it says
	AcceptAfter time.Duration // time from the answer to the acceptance, for AcceptedLate
	Behind      int           // a question is answered as by a node that is this number of blocks behind
	Drop        bool          // the node forgets the transaction that it accepted
}

func (f *Faults) setDefaultsAndCheck() error {
	simnode.SetDefault(&f.MaxLatency, 50*time.Millisecond)
	simnode.SetDefault(&f.MaxLateDelay, 200*time.Millisecond)
	simnode.SetDefault(&f.MaxBehind, 3)
	simnode.SetDefault(&f.ReorgDepth, 3)
	if err := simnode.CheckRates(
		f.sendRates(), f.queryRates(), []float64{f.Behind}, []float64{f.Latency}, []float64{f.Drop}, []float64{f.Reorg},
	); err != nil {
		return fmt.Errorf("evmtest: %w", err)
	}
	return nil
}

func (f *Faults) sendRates() []float64 {
	return []float64{f.Hang, f.ResetBefore, f.ResetAfter, f.ErrorBefore, f.ErrorAfter, f.TimeoutText, f.Late, f.Busy}
}

func (f *Faults) queryRates() []float64 {
	return []float64{f.QueryHang, f.QueryReset, f.QueryError, f.QueryBusy, f.QueryTruncated}
}

// drawForRequest draws the fault of one request. f may be nil.
func (f *Faults) drawForRequest(p RequestPoint) Fault {
	if f == nil {
		return Fault{}
	}
	if f.Request != nil {
		if x := f.Request(p); x != (Fault{}) {
			return x
		}
	}
	if f.MaxTries > 0 && p.Try > f.MaxTries {
		return Fault{}
	}
	d := simnode.Draw{Seed: f.Seed, Subject: p.Method + "|" + p.Param, Try: p.Try}
	var x Fault
	if d.Float("latency") < f.Latency {
		x.Delay = d.UpTo("how long", f.MaxLatency)
	}
	if p.Method == sendMethod {
		x.Drop = d.Float("drop") < f.Drop
		f.drawForSend(&x, d)
		return x
	}
	if d.Float("behind") < f.Behind {
		x.Behind = 1 + int(d.Float("how far")*float64(f.MaxBehind))
	}
	switch simnode.Pick(f.queryRates(), d.Float("kind")) {
	case 0:
		x.Answer = AnswerNever
	case 1:
		x.Answer = AnswerReset
	case 2:
		x.answerPage(d)
	case 3:
		x.answerBusy(d)
	case 4:
		x.Answer = AnswerTruncated
	}
	return x
}

func (f *Faults) drawForSend(x *Fault, d simnode.Draw) {
	switch simnode.Pick(f.sendRates(), d.Float("kind")) {
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
		x.answerPage(d)
	case 4:
		x.answerPage(d)
		x.Acceptance = AcceptedFirst
	case 5:
		x.Answer, x.Code, x.Text, x.Acceptance = AnswerError, -32002, "request timed out", AcceptedFirst
	case 6:
		x.Answer, x.Acceptance, x.AcceptAfter = AnswerReset, AcceptedLate, d.UpTo("late by", f.MaxLateDelay)
	case 7:
		x.answerBusy(d)
	}
}

func (f *Fault) answerPage(d simnode.Draw) {
	all := [...]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	f.Answer, f.Status = AnswerPage, all[int(d.Float("which")*float64(len(all)))]
}

func (f *Fault) answerBusy(d simnode.Draw) {
	f.Answer, f.Status = AnswerPage, http.StatusTooManyRequests
	if d.Float("text") < 0.5 {
		f.Answer, f.Status, f.Code, f.Text = AnswerError, http.StatusOK, -32005, "daily request count exceeded, request rate limited"
	}
}

// drawForBlock draws the faults of a block. f may be nil.
func (f *Faults) drawForBlock(number uint64, made int) (reorg int) {
	if f == nil {
		return 0
	}
	d := simnode.Draw{Seed: f.Seed, Subject: fmt.Sprint(number), Try: made}
	if d.Float("reorg") < f.Reorg {
		reorg = 1 + int(d.Float("depth")*float64(f.ReorgDepth))
	}
	return reorg
}
