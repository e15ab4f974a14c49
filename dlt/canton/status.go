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

// question is a query about one batch.
type question struct {
	key            batch.Key
	number         int   // the attempt that is asked about; 0 means any
	after          int64 // the completions after this offset are needed
	afterIsGuess   bool  // true if after is only a guess
	mayHaveEarlier bool  // there may be completions at or before after
	pruned         bool  // completions after after were pruned
	unclear        bool  // the last read found a completion that only an operator can judge

	committed   bool
	attempt     int // the committed attempt; 0 if it is not known
	duplicate   bool
	lastFailure verdict
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
		reached, complete, err := c.read(ctx, service, together, c.idleWait)
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
func divideQuestions(questions map[string]*question) (parts []map[string]*question) {
	others := map[string]*question{}
	for id, q := range questions {
		if q.unclear {
			parts = append(parts, map[string]*question{id: q})
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
func (c *Client) questions(service batch.ServiceID, attempts []batch.Attempt) (map[string]*question, []error) {
	var errs []error
	out := make(map[string]*question, len(attempts))
	for _, a := range attempts {
		if !isCommandID(string(a.ID)) || !isParty(string(service)) {
			continue
		}
		if old := out[string(a.ID)]; old != nil {
			old.number = max(old.number, a.Number)
			continue
		}
		t := c.traces.get(batch.Key{Service: service, ID: a.ID})
		q := &question{key: batch.Key{Service: service, ID: a.ID}, number: a.Number, after: -1, unclear: t.unclear}
		switch {
		case t.wasRead && (t.pruned || !t.mayHaveEarlier || a.Prepared == nil):
			q.after, q.mayHaveEarlier, q.lastFailure, q.duplicate = t.readUpTo, t.mayHaveEarlier, t.lastFailure, t.duplicate
			q.pruned = t.pruned && a.Prepared != nil
		case a.Prepared != nil:
			offset, err := parsePrepared(a.Prepared)
			if err != nil {
				errs = append(errs, &dlt.Error{Op: opStatuses, Kind: dlt.ErrMisconfigured, Message: "batch " + batch.Excerpt(q.key.String(), 80), Err: err})
				continue
			}
			q.after, q.duplicate = offset, t.duplicate
		default:
			q.afterIsGuess, q.duplicate = true, t.duplicate
		}
		out[string(a.ID)] = q
	}
	return out, errs
}

// read reads the completions that the questions need, and returns the offset up to which
// everything was read. complete is true if no more completions came for the idle time.
func (c *Client) read(ctx context.Context, service batch.ServiceID, questions map[string]*question, idle time.Duration) (reached int64, complete bool, err error) {
	if err := c.setLookBack(ctx, questions); err != nil {
		return 0, false, err
	}
	begin := int64(math.MaxInt64)
	for _, q := range questions {
		begin = min(begin, q.after)
	}
	s := completionScan{c: c, party: service, questions: questions, idleWait: idle, readUpTo: begin}
	err = s.run(ctx)
	if errors.Is(err, errPruned) {
		var pruned int64
		if pruned, err = c.prunedUpTo(ctx, opStatuses); err != nil {
			return 0, false, err
		}
		for _, q := range questions {
			if q.after < pruned {
				q.pruned, q.mayHaveEarlier = q.pruned || !q.afterIsGuess && !q.mayHaveEarlier, true
				q.after = pruned
			}
		}
		s.readUpTo = max(s.readUpTo, pruned)
		err = s.run(ctx)
	}
	if errors.Is(err, errAfterEnd) {
		// The participant was restored to an earlier state: nothing that was read before counts.
		for _, q := range questions {
			c.traces.forget(q.key)
		}
		return -1, false, err // so that no call remembers this offset
	}
	return s.readUpTo, s.complete, err
}

// setLookBack sets after in the questions that have no offset.
func (c *Client) setLookBack(ctx context.Context, questions map[string]*question) error {
	from := int64(-1)
	for _, q := range questions {
		if q.after >= 0 {
			continue
		}
		if from < 0 {
			end, err := c.ledgerEnd(ctx, opStatuses)
			if err != nil {
				return err
			}
			from = max(0, end-c.lookBack)
		}
		q.after, q.mayHaveEarlier = from, from > 0
	}
	return nil
}

// statusOf returns the status that the completions prove, and remembers what was read. The zero
// Status means no answer.
func (c *Client) statusOf(q *question, reached int64, complete bool) (batch.Status, error) {
	s := batch.Status{ID: q.key.ID}
	if q.committed || q.duplicate {
		c.traces.forget(q.key)
		s.Reported, s.Attempt = batch.ReportedCommitted, q.attempt
		return s, nil
	}
	judged := q.lastFailure.attempt != 0 && q.lastFailure.attempt >= q.number
	unclear := judged && q.lastFailure.reported == 0
	if q.after >= 0 && reached >= q.after || unclear {
		c.traces.update(q.key, func(t *batchTrace) {
			// Completions that cannot be judged are read again, since the transmission may have
			// failed.
			if t.unclear = unclear; unclear || t.wasRead && t.readUpTo >= reached && (q.mayHaveEarlier || !t.mayHaveEarlier) {
				return // or another call has read further
			}
			t.wasRead, t.readUpTo, t.mayHaveEarlier, t.pruned, t.lastFailure = true, reached, q.mayHaveEarlier, q.pruned, q.lastFailure
		})
	}
	if judged {
		return c.rejectedStatus(q, s)
	}
	switch {
	case !complete:
		return batch.Status{}, nil // there may be more completions: the question is asked again
	case q.pruned:
		return batch.Status{}, &dlt.Error{Op: opStatuses, Message: fmt.Sprintf(
			"completions up to offset %d were pruned, and those of batch %s may have been among them", q.after, batch.Excerpt(q.key.String(), 80))}
	}
	s.Reported = batch.ReportedUnknown
	if q.mayHaveEarlier {
		s.Message = "no completion was found, and they were read from no further back than offset " + formatInt(q.after)
	}
	return s, nil
}

func (c *Client) rejectedStatus(q *question, s batch.Status) (batch.Status, error) {
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
