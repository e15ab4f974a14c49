package canton

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// maxIDs is the largest number of batches in one call. Completions are read by party, so a large
// number costs no more requests.
const maxIDs = 200

// batchQuestion is a query about one batch.
type batchQuestion struct {
	key            batch.Key
	number         int   // the attempt that is asked about; 0 means any
	afterOffset    int64 // the completions after this offset are needed
	isOffsetGuess  bool  // true if after is only a guess
	mayHaveEarlier bool  // there may be completions at or before after
	isPruned       bool  // completions after after were pruned
	isUnclear      bool  // the last read found a completion that only an operator can judge

	isCommitted bool
	attempt     int // the committed attempt; 0 if it is not known
	isDuplicate bool
	lastFailure completionVerdict
}

// BatchStatuses implements [dlt.BatchStatusReader]. It reads the completions of the service, a
// party, from the lowest offset with which the attempts were prepared, or from the end of its last
// read. Without batch.Attempt.Prepared it reads from Options.LookBack before the ledger's end, and
// the Message of an Unknown status mentions that.
//
// A success of any attempt is Committed. A rejection counts for the attempt that it names, and for
// later queries about the same attempt: Failed if the same command may be tried again, otherwise
// Invalid. No completion, or a completion that leaves the outcome open, is Unknown. If the
// completions were pruned, or only an operator can find out, there is an error instead of an
// answer. Errors are [*dlt.Error]s, joined; the answers that come with an error are valid.
func (c *Client) BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	questions, errs := c.questions(service, attempts)
	if len(questions) == 0 {
		return nil, errors.Join(errs...)
	}
	var out []batch.Status
	for _, together := range divideQuestions(questions) {
		reached, complete, err := c.readCompletions(ctx, service, together, c.idleWait)
		if err != nil {
			errs = append(errs, err)
		}
		for _, q := range together {
			s, err := c.statusOf(q, reached, complete)
			if err != nil {
				errs = append(errs, err)
			}
			if s.Reported != 0 {
				out = append(out, s)
			}
		}
	}
	return out, errors.Join(errs...)
}

// divideQuestions divides questions into groups that are read together. Completions that only an
// operator can judge are read again from the same offset each time. So a question about them is
// read alone, after the others, which would otherwise have to wait for all completions after that
// offset.
func divideQuestions(questions map[string]*batchQuestion) (parts []map[string]*batchQuestion) {
	others := map[string]*batchQuestion{}
	for id, q := range questions {
		if q.isUnclear {
			parts = append(parts, map[string]*batchQuestion{id: q})
		} else {
			others[id] = q
		}
	}
	if len(others) > 0 {
		parts = slices.Insert(parts, 0, others)
	}
	return parts
}

// questions returns one question for each batch. An id that cannot be a command id has none,
// because such a batch was never sent.
func (c *Client) questions(service batch.ServiceID, attempts []batch.Attempt) (map[string]*batchQuestion, []error) {
	var errs []error
	out := make(map[string]*batchQuestion, len(attempts))
	for _, a := range attempts {
		if !isCommandID(string(a.ID)) || !isParty(string(service)) {
			continue
		}
		if old := out[string(a.ID)]; old != nil {
			old.number = max(old.number, a.Number)
			continue
		}
		t := c.traces.get(batch.Key{Service: service, ID: a.ID})
		q := &batchQuestion{key: batch.Key{Service: service, ID: a.ID}, number: a.Number, afterOffset: -1, isUnclear: t.isUnclear}
		switch {
		case t.wasRead && (t.isPruned || !t.mayHaveEarlier || a.Prepared == nil):
			q.afterOffset, q.mayHaveEarlier, q.lastFailure, q.isDuplicate = t.readUpTo, t.mayHaveEarlier, t.lastFailure, t.isDuplicate
			q.isPruned = t.isPruned && a.Prepared != nil
		case a.Prepared != nil:
			offset, err := parsePrepared(a.Prepared)
			if err != nil {
				errs = append(errs, &dlt.Error{Op: opStatuses, Kind: dlt.ErrMisconfigured, Message: "batch " + batch.Excerpt(q.key.String(), 80), Err: err})
				continue
			}
			q.afterOffset, q.isDuplicate = offset, t.isDuplicate
		default:
			q.isOffsetGuess, q.isDuplicate = true, t.isDuplicate
		}
		out[string(a.ID)] = q
	}
	return out, errs
}

// readCompletions reads the completions that the questions need, and returns the offset up to
// which everything was read. complete is true if no more completions came for the idle time.
func (c *Client) readCompletions(ctx context.Context, service batch.ServiceID, questions map[string]*batchQuestion, idle time.Duration) (reached int64, complete bool, err error) {
	if err := c.setLookBack(ctx, questions); err != nil {
		return 0, false, err
	}
	begin := int64(math.MaxInt64)
	for _, q := range questions {
		begin = min(begin, q.afterOffset)
	}
	s := completionScan{client: c, party: service, questions: questions, idleWait: idle, readUpTo: begin}
	err = s.readAll(ctx)
	if errors.Is(err, errPruned) {
		var pruned int64
		if pruned, err = c.prunedUpTo(ctx, opStatuses); err != nil {
			return 0, false, err
		}
		for _, q := range questions {
			if q.afterOffset < pruned {
				q.isPruned, q.mayHaveEarlier = q.isPruned || !q.isOffsetGuess && !q.mayHaveEarlier, true
				q.afterOffset = pruned
			}
		}
		s.readUpTo = max(s.readUpTo, pruned)
		err = s.readAll(ctx)
	}
	if errors.Is(err, errAfterEnd) {
		// The participant was restored to an earlier state: nothing that was read before counts.
		for _, q := range questions {
			c.traces.forget(q.key)
		}
		return -1, false, err // so that no call remembers this offset
	}
	return s.readUpTo, s.isComplete, err
}

// setLookBack sets after in the questions that have no offset.
func (c *Client) setLookBack(ctx context.Context, questions map[string]*batchQuestion) error {
	from := int64(-1)
	for _, q := range questions {
		if q.afterOffset >= 0 {
			continue
		}
		if from < 0 {
			end, err := c.ledgerEnd(ctx, opStatuses)
			if err != nil {
				return err
			}
			from = max(0, end-c.lookBack)
		}
		q.afterOffset, q.mayHaveEarlier = from, from > 0
	}
	return nil
}

// statusOf returns the status that the completions prove, and remembers what was read. The zero
// Status means no answer.
func (c *Client) statusOf(q *batchQuestion, reached int64, complete bool) (batch.Status, error) {
	s := batch.Status{ID: q.key.ID}
	if q.isCommitted || q.isDuplicate {
		c.traces.forget(q.key)
		s.Reported, s.Attempt = batch.ReportedCommitted, q.attempt
		return s, nil
	}
	judged := q.lastFailure.attempt != 0 && q.lastFailure.attempt >= q.number
	unclear := judged && q.lastFailure.reported == 0
	if q.afterOffset >= 0 && reached >= q.afterOffset || unclear {
		c.traces.update(q.key, func(t *batchTrace) {
			// Completions that cannot be judged are read again, since the transmission may have
			// failed.
			if t.isUnclear = unclear; unclear || t.wasRead && t.readUpTo >= reached && (q.mayHaveEarlier || !t.mayHaveEarlier) {
				return // or another call has read further
			}
			t.wasRead, t.readUpTo, t.mayHaveEarlier, t.isPruned, t.lastFailure = true, reached, q.mayHaveEarlier, q.isPruned, q.lastFailure
		})
	}
	if judged {
		return c.rejectedStatus(q, s)
	}
	switch {
	case !complete:
		return batch.Status{}, nil // there may be more completions: the question is asked again
	case q.isPruned:
		return batch.Status{}, &dlt.Error{Op: opStatuses, Message: fmt.Sprintf(
			"completions up to offset %d were pruned, and those of batch %s may have been among them", q.afterOffset, batch.Excerpt(q.key.String(), 80))}
	}
	s.Reported = batch.ReportedUnknown
	if q.mayHaveEarlier {
		s.Message = "no completion was found, and they were read from no further back than offset " + formatInt(q.afterOffset)
	}
	return s, nil
}

func (c *Client) rejectedStatus(q *batchQuestion, s batch.Status) (batch.Status, error) {
	if q.lastFailure.reported == 0 {
		return batch.Status{}, &dlt.Error{Op: opStatuses, Message: fmt.Sprintf(
			"attempt %d of batch %s ended with what only an operator can judge: %s", q.lastFailure.attempt, batch.Excerpt(q.key.String(), 80), q.lastFailure.message)}
	}
	s.Reported, s.Attempt, s.Message = q.lastFailure.reported, q.lastFailure.attempt, q.lastFailure.message
	if s.Reported == batch.ReportedInvalid {
		c.traces.forget(q.key)
	}
	return s, nil
}
