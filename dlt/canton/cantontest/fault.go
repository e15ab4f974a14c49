package cantontest

import (
	"net/http"
	"time"
)

// Operation is what a request asks for.
type Operation string

// The operations that suffer faults.
const (
	OpSubmit      Operation = "submit"
	OpCompletions Operation = "completions"
	OpStream      Operation = "stream"
	OpLedgerEnd   Operation = "ledger end"
	OpPruned      Operation = "pruned"
)

// Point is where a fault can happen.
type Point struct {
	Operation    Operation
	CommandID    string // of OpSubmit
	SubmissionID string // of OpSubmit
	Try          int    // n-th submission of CommandID, or n-th request of the operation, from 1
}

// Answer is what becomes of the answer.
type Answer uint8

// The answers.
const (
	AnswerProperly  Answer = iota
	AnswerNever            // no answer until the client leaves
	AnswerClosed           // the connection is closed
	AnswerReset            // the connection is reset
	AnswerTimeout          // a plain 503, as when the request timeout is over
	AnswerError            // the error object of Fault.Error
	AnswerPage             // a page of HTML with Fault.Status, as a proxy sends it
	AnswerTruncated        // it ends in the middle
)

// Fault is what happens to one request. The zero value is none.
type Fault struct {
	Delay  time.Duration // before the request is looked at
	Answer Answer
	Error  string // of AnswerError: one of [Errors]
	Status int    // of AnswerPage; 0 is 200
	// SlowRead is how long it takes to read the first completion of a list, while the
	// idle time runs.
	SlowRead time.Duration
	// Taken says that the submission is taken although the answer is not a proper one.
	Taken bool
	// Late is how long after that it is taken.
	Late time.Duration

	// Reject makes the completion of a submission that is taken a rejection: one of [Errors].
	Reject string
	// Lose makes it disappear without a completion: the participant forgets it.
	Lose bool
	// CompleteAfter is in place of Options.CompleteAfter.
	CompleteAfter time.Duration
}

// SetFault is asked from now on in place of Options.Fault. nil is no faults.
func (p *Participant) SetFault(f func(Point) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// draw asks what happens to a request. The lock is held.
func (p *Participant) draw(at Point) Fault {
	key := string(at.Operation) + "/" + at.CommandID
	p.tries[key]++
	at.Try = p.tries[key]
	if p.fault == nil {
		return Fault{}
	}
	return p.fault(at)
}

// replace returns what is answered in place of a.
func (f Fault) replace(a answer) answer {
	switch f.Answer {
	case AnswerTimeout:
		return textAnswer(http.StatusServiceUnavailable,
			"The server was not able to produce a timely response to your request.\r\nPlease try again in a short while!")
	case AnswerError:
		return refusal{id: f.Error, cause: "injected"}.answer()
	case AnswerPage:
		if f.Status == 0 {
			f.Status = http.StatusOK
		}
		return pageAnswer(f.Status)
	}
	return a
}
