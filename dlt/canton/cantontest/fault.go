package cantontest

import (
	"net/http"
	"time"
)

// Operation is the kind of a request.
type Operation string

// The operations that can have faults.
const (
	OpSubmit      Operation = "submit"
	OpCompletions Operation = "completions"
	OpStream      Operation = "stream"
	OpLedgerEnd   Operation = "ledger end"
	OpPruned      Operation = "pruned"
)

// RequestPoint is a place where a fault can happen.
type RequestPoint struct {
	Operation    Operation
	CommandID    string // command id of the submission; "" for other operations than OpSubmit
	SubmissionID string // submission id; "" for other operations than OpSubmit
	Try          int    // number of the submission of CommandID, or of the request, from 1
}

// Answer is what the node answers where a fault happens.
type Answer uint8

// The answers.
const (
	AnswerProperly  Answer = iota
	AnswerNever            // no answer until the client leaves
	AnswerClosed           // the connection is closed
	AnswerReset            // the connection is reset
	AnswerTimeout          // a plain 503, as after the request timeout
	AnswerError            // the error object of Fault.Error
	AnswerPage             // a page of HTML with Fault.Status, like a proxy's
	AnswerTruncated        // the answer ends in the middle
)

// Fault changes the course of one request. The zero value means no fault.
type Fault struct {
	Delay  time.Duration // waited before the node reads the request
	Answer Answer
	Error  string // the error for AnswerError: one of [Errors]
	Status int    // HTTP status for AnswerPage; 0 means 200
	// SlowRead is how long the participant takes before it reads the first completion of a list.
	// The list is empty if that is the idle time or more; otherwise the idle time begins after it.
	SlowRead time.Duration
	// Accept makes the participant accept the submission although the answer is a faulty one.
	Accept bool
	// AcceptAfter is how long after the answer it accepts the submission.
	AcceptAfter time.Duration

	// Reject makes the completion of an accepted submission a rejection: one of [Errors].
	Reject string
	// Definite is the definite_answer of that completion: "true", "false", or "" for none, as in
	// the verdict of a mediator.
	Definite string
	// Lose makes the submission disappear without a completion: the participant forgets it.
	Lose bool
	// CompleteAfter replaces Options.CompleteAfter.
	CompleteAfter time.Duration
}

// SetFault replaces Options.Fault from now on. nil means no faults.
func (p *Participant) SetFault(f func(RequestPoint) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drawFaultFunc = f
}

// drawFault counts a request, and returns its fault. The caller holds the lock.
func (p *Participant) drawFault(at RequestPoint) Fault {
	key := string(at.Operation) + "/" + at.CommandID
	p.triesByCommand[key]++
	at.Try = p.triesByCommand[key]
	if p.drawFaultFunc == nil {
		return Fault{}
	}
	return p.drawFaultFunc(at)
}

// changedAnswer returns the answer that the fault puts in place of a.
func (f Fault) changedAnswer(a answer) answer {
	switch f.Answer {
	case AnswerTimeout:
		return textAnswer(http.StatusServiceUnavailable,
			"The server was not able to produce a timely response to your request.\r\nPlease try again in a short while!")
	case AnswerError:
		return refusalError{id: f.Error, cause: "injected"}.answer()
	case AnswerPage:
		if f.Status == 0 {
			f.Status = http.StatusOK
		}
		return pageAnswer(f.Status)
	}
	return a
}
