package dlttest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
)

// buggyClient is a client of the backend that keeps every promise, unless bug names the one that
// it breaks.
type buggyClient struct {
	dlt.Unimplemented // the client has no Prepare

	backend   *testBackend
	bug       string
	name      string // "" means "words"
	callCount atomic.Int64
	underWay  atomic.Int64
	sentIDs   sync.Map
	wasUsed   atomic.Bool

	streamCount atomic.Int64
}

const maxIDs = 20

func (c *buggyClient) Traits(s batch.ServiceID) dlt.Traits {
	t := dlt.Traits{Name: cmp.Or(c.name, "words"), MaxIDsPerQuery: maxIDs, LateArrival: 10 * time.Millisecond, Resolves: true, Streams: true, Checks: true, MaxList: 4}
	switch n := c.callCount.Add(1); {
	case c.bug == "no name":
		t.Name = ""
	case c.bug == "a trait too many":
		t.Prepares = true
	case c.bug == "a trait too few":
		t.Checks = false
	case c.bug == "traits wander" && n > 40:
		t.Grace = time.Duration(n)
	case c.bug == "groups one service" && s == "two":
		t.GroupsByService = true
	}
	return t
}

func (c *buggyClient) Submit(ctx context.Context, a batch.Attempt) error {
	fail := func(kind, cause error) *dlt.Error {
		e := &dlt.Error{Op: "submit", Kind: kind, Err: cause}
		switch c.bug {
		case "shows payloads":
			e.Message = string(a.Payload)
		case "nameless":
			e.Op = ""
		}
		return e
	}
	defer c.underWay.Add(-1)
	_, again := c.sentIDs.LoadOrStore(a.ID, true)
	switch n := c.underWay.Add(1); {
	case c.bug == "never sends":
		return nil
	case c.bug == "sends every second" && c.wasUsed.Swap(!c.wasUsed.Load()):
		return nil
	case c.bug == "one service" && a.Service != "one":
		return fail(dlt.ErrMisconfigured, nil)
	case c.bug == "one hand" && n > 1:
		return fail(dlt.ErrBusy, nil)
	case c.bug == "swallows resends" && again:
		return nil
	case c.bug == "changes payloads":
		clear(a.Payload)
	case c.bug == "done is rejected" && ctx.Err() != nil:
		return fail(dlt.ErrRejected, ctx.Err())
	case c.bug == "no contexts":
		ctx = context.WithoutCancel(ctx)
	case c.bug == "deadlines only":
		if _, ok := ctx.Deadline(); !ok {
			ctx = context.WithoutCancel(ctx)
		}
	}
	word, err := c.backend.post(ctx, a.ID)
	switch {
	case c.bug == "resends" && errors.Is(err, errReset),
		c.bug == "resends on used connections" && errors.Is(err, errReset) && c.wasUsed.Load(),
		c.bug == "resends when busy" && word == string(dlttest.Busy):
		word, err = c.backend.post(ctx, a.ID)
	case c.bug == "resets are certain" && errors.Is(err, errReset):
		err = errNotListening
	case c.bug == "silence is consent" && word == string(dlttest.UnknownAnswer):
		word = "taken"
	case c.bug == "follows redirects" && word == string(dlttest.Redirect):
		c.backend.commitThroughAnother(a.ID)
		return nil
	case c.bug == "untyped" && err != nil:
		return fmt.Errorf("submit: %w", err)
	case c.bug == "everything is doubt" && word != "taken":
		return fail(nil, err)
	case c.bug == "everything is rejected" && word != "taken":
		return fail(dlt.ErrRejected, err)
	}
	switch {
	case errors.Is(err, errNotListening):
		return fail(dlt.ErrUnavailable, err)
	case err != nil:
		return fail(dlt.ErrDoubt, err)
	}
	switch dlttest.Fault(word) {
	case "taken":
		c.wasUsed.Store(true)
		return nil
	case dlttest.Busy:
		return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy, RetryAfter: 3 * time.Second, Message: fail(nil, nil).Message}
	case dlttest.Refused:
		return fail(dlt.ErrRejected, nil)
	case dlttest.Misconfigured, dlttest.Redirect:
		return fail(dlt.ErrMisconfigured, nil)
	case dlttest.NotYet:
		return fail(dlt.ErrNotYet, nil)
	}
	return fail(dlt.ErrDoubt, nil)
}

// SubmitList sends all batches in one request.
func (c *buggyClient) SubmitList(ctx context.Context, list []batch.Attempt) error {
	ids := make([]batch.ID, len(list))
	for i, a := range list {
		ids[i] = a.ID
	}
	if c.bug == "half a list" {
		ids = ids[:1]
	}
	word, err := c.backend.post(ctx, ids...)
	switch {
	case c.bug == "resends lists" && errors.Is(err, errReset):
		_, err = c.backend.post(ctx, ids...)
	case c.bug == "takes the rest of a list" && word == string(dlttest.Refused):
		c.backend.commitThroughAnother(ids[len(ids)-1])
	case c.bug == "lists are doubt" && word != "taken":
		return &dlt.Error{Op: "submit"}
	}
	switch {
	case errors.Is(err, errNotListening):
		return &dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable, Err: err}
	case err != nil:
		return &dlt.Error{Op: "submit", Err: err}
	}
	kind, known := map[string]error{
		"taken": nil, string(dlttest.Busy): dlt.ErrBusy, string(dlttest.Refused): dlt.ErrRejected,
		string(dlttest.Misconfigured): dlt.ErrMisconfigured, string(dlttest.Redirect): dlt.ErrMisconfigured,
		string(dlttest.NotYet): dlt.ErrNotYet,
	}[word]
	if known && kind == nil {
		return nil
	}
	return &dlt.Error{Op: "submit", Kind: kind}
}

var reportedByWord = map[string]batch.Reported{
	"unknown": batch.ReportedUnknown, "pending": batch.ReportedPending,
	"invalid": batch.ReportedInvalid, "committed": batch.ReportedCommitted,
}

func (c *buggyClient) BatchStatuses(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	switch c.bug {
	case "statuses without contexts":
		ctx = context.WithoutCancel(ctx)
	case "sorts attempts":
		slices.SortFunc(attempts, func(a, b batch.Attempt) int { return cmp.Compare(a.ID, b.ID) })
	case "ten at most":
		attempts = attempts[:min(10, len(attempts))]
	}
	var out []batch.Status
	var errs []error
	size := maxIDs
	if c.bug == "no parts" {
		size = 1000
	}
	for part := range slices.Chunk(attempts, size) {
		statuses, err := c.ask(ctx, part)
		out, errs = append(out, statuses...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

func (c *buggyClient) ask(ctx context.Context, attempts []batch.Attempt) ([]batch.Status, error) {
	fail := func(kind, cause error) error { return &dlt.Error{Op: "batch statuses", Kind: kind, Err: cause} }
	var ids []batch.ID
	for _, a := range attempts {
		if !slices.Contains(ids, a.ID) {
			ids = append(ids, a.ID)
		} else if c.bug == "no id twice" {
			return nil, fail(nil, errors.New("an id twice"))
		}
	}
	answers, err := c.backend.queryWords(ctx, ids)
	if err != nil && (c.bug == "errors are empty answers" || c.bug == "errors are unknown") {
		for _, id := range ids {
			answers = append(answers, answerWord{id, "unknown"})
		}
		if c.bug == "errors are empty answers" {
			answers = nil
		}
		err = nil
	}
	switch {
	case errors.Is(err, errNotListening):
		return nil, fail(dlt.ErrUnavailable, err)
	case err != nil:
		return nil, fail(nil, err)
	}
	var out []batch.Status
	for i, a := range answers {
		s := batch.Status{ID: a.id, Reported: reportedByWord[a.word]}
		switch {
		case c.bug == "unknown is pending" && a.word == "unknown":
			s.Reported = batch.ReportedPending
		case c.bug == "invalid is committed" && a.word == "invalid":
			s.Reported = batch.ReportedCommitted
		case c.bug == "first word for all":
			s.Reported = reportedByWord[answers[0].word]
		case c.bug == "by position" && i < len(ids):
			s.ID = ids[i]
		case c.bug == "attempt seven":
			s.Attempt = 7
		case c.bug == "new words are pending" && s.Reported == 0:
			s.Reported = batch.ReportedPending
		}
		if s.Reported == 0 {
			err = errors.Join(err, fail(nil, fmt.Errorf("unknown word %q", a.word)))
		} else if slices.Contains(ids, s.ID) || c.bug == "keeps strangers" {
			out = append(out, s)
		}
	}
	if c.bug == "missing is unknown" {
		for _, id := range ids {
			if !slices.ContainsFunc(out, func(s batch.Status) bool { return s.ID == id }) {
				out = append(out, batch.Status{ID: id, Reported: batch.ReportedUnknown})
			}
		}
	}
	return out, err
}

func (c *buggyClient) Resolve(ctx context.Context, a dlt.Doubt) (dlt.Evidence, error) {
	switch c.bug {
	case "always committed":
		return dlt.Committed, nil
	case "never committed":
		return dlt.NotCommitted, nil
	}
	answers, err := c.backend.queryWords(ctx, []batch.ID{a.ID})
	switch {
	case errors.Is(err, errNotListening):
		return dlt.CannotTell, &dlt.Error{Op: "resolve", Kind: dlt.ErrUnavailable, Err: err}
	case err != nil:
		return dlt.CannotTell, &dlt.Error{Op: "resolve", Err: err}
	}
	return map[string]dlt.Evidence{
		"unknown": dlt.NotCommitted, "pending": dlt.InFlight, "invalid": dlt.NotCommitted, "committed": dlt.Committed,
	}[answers[0].word], nil
}

// Events asks its ledger every millisecond for new commits.
func (c *buggyClient) Events(ctx context.Context, _ []batch.ServiceID, yield func(dlt.Event) error) error {
	if c.bug == "a done context is an error" && ctx.Err() != nil {
		return ctx.Err()
	}
	if ctx.Err() != nil {
		return nil
	}
	if n := c.streamCount.Add(1); c.bug == "one stream at a time" && n > 1 {
		return errGarbage
	}
	defer c.streamCount.Add(-1)
	if c.bug == "leaks" {
		go func() { <-c.backend.closed }()
	}
	seen, first := c.backend.commitCount(), true
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		now, err := c.backend.openStream()
		var event *dlt.Event
		switch {
		case c.bug == "a cut is silence" && err != nil:
			<-ctx.Done()
			return nil
		case c.bug == "a cut is the end" && err != nil:
			return nil
		case c.bug == "opens to nobody" && errors.Is(err, errNotListening):
		case err != nil:
			return &dlt.Error{Op: "events", Err: err}
		}
		switch {
		case first:
			event = &dlt.Event{Live: c.bug != "not live"}
		case now != seen && c.bug != "tells nothing":
			event = &dlt.Event{}
		}
		if seen, first = now, false; event != nil {
			if err := yield(*event); err != nil && c.bug != "deaf to yield" {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			switch c.bug {
			case "the end is an error":
				return ctx.Err()
			case "never ends":
				<-c.backend.closed
			}
			return nil
		}
	}
}

func (c *buggyClient) Check(b batch.Batch) error {
	switch {
	case c.bug == "refuses all":
		return &batch.InputError{Field: "Payload", Want: "another"}
	case c.bug == "bends payloads" && len(b.Payload) > 0:
		b.Payload[0] ^= 1
	case c.bug == "panics" && len(b.Payload) < 3:
		_ = b.Payload[3]
	case c.bug == "says any error" && len(b.Payload) < 3:
		return errGarbage
	}
	return b.Validate()
}
