package canton

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// maxPages is how many pages one call reads; the next call goes on from there.
const maxPages = 50

// A participant's answers about an offset, and about a list that is too long.
var (
	errPruned      = errors.New("the offset was pruned")
	errAfterEnd    = errors.New("the offset is behind the ledger's end")
	errListTooLong = errors.New("the list is too long")
)

// completionScan reads completions of a party, page by page.
type completionScan struct {
	client     *Client
	party      batch.ServiceID
	questions  map[string]*batchQuestion
	idleWait   time.Duration // after this time without a completion there are no more
	readUpTo   int64         // the offset up to which everything was read
	isComplete bool          // true if there were no more completions
}

func (s *completionScan) readAll(ctx context.Context) error {
	s.isComplete = false
	// Often there are only the wanted completions. A short first page then comes at once, while a
	// longer one would wait for more.
	limit := min(int64(len(s.questions)), s.client.pageLimit.Load())
	for range maxPages {
		n, err := s.readPage(ctx, limit)
		switch {
		case errors.Is(err, errListTooLong):
			if !s.client.halvePageLimit(limit) {
				return err
			}
			limit = min(limit, s.client.pageLimit.Load())
			continue
		case err != nil:
			return err
		case int64(n) < limit:
			s.isComplete = true
			return nil
		case s.allCommitted():
			return nil
		}
		limit = s.client.pageLimit.Load()
	}
	return nil
}

// allCommitted reports whether all batches are committed, so that nothing more needs to be found.
func (s *completionScan) allCommitted() bool {
	for _, q := range s.questions {
		if !q.isCommitted {
			return false
		}
	}
	return true
}

// halvePageLimit makes pages shorter than limit, unless they are already. It returns false if
// limit cannot be halved.
func (c *Client) halvePageLimit(limit int64) bool {
	if limit <= 1 {
		return false
	}
	if old := c.pageLimit.Load(); old >= limit {
		c.pageLimit.CompareAndSwap(old, max(1, limit/2))
	}
	return true
}

// readPage reads one page, and returns its number of elements.
func (s *completionScan) readPage(ctx context.Context, limit int64) (int, error) {
	c := s.client
	body, err := json.Marshal(c.completionRequest(s.party, s.readUpTo))
	if err != nil {
		return 0, fmt.Errorf("canton: encode request: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := url.Values{"limit": {formatInt(limit)}, "stream_idle_timeout_ms": {formatInt(s.idleWait.Milliseconds())}}
	req, err := newPost(ctx, c.endpoint.completionsURL+"?"+query.Encode(), body)
	if err != nil {
		return 0, &dlt.Error{Op: opStatuses, Kind: dlt.ErrMisconfigured, Err: requestSecrets{urlSecrets: c.endpoint.secrets}.redactError(err)}
	}
	// A query may be sent again, when its connection was being closed.
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	resp, err := c.exchange(req, opStatuses)
	if err != nil {
		return 0, err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode != http.StatusOK {
		e := readEnvelope(resp.Header, resp.Body, cancel)
		err := &dlt.Error{
			Op: opStatuses, StatusCode: resp.StatusCode, Code: max(e.grpcCode, 0), Message: resp.secrets.redactText(e.shownText()),
			Kind: readKind(resp.StatusCode, e), RetryAfter: max(e.retryAfter, retryAfter(resp.Header)),
		}
		switch {
		case e.isParticipants && e.id == "PARTICIPANT_PRUNED_DATA_ACCESSED":
			err.Err = errPruned
		case e.isParticipants && e.id == "OFFSET_AFTER_LEDGER_END":
			err.Err = errAfterEnd
		case resp.StatusCode == http.StatusRequestEntityTooLarge:
			err.Err = errListTooLong
		}
		return 0, err
	}
	reached := s.readUpTo
	n, err := decodeElements(resp.Body, c.maxResponse, func(e element) {
		s.recordElement(e)
		reached = max(reached, e.offset)
	})
	if err != nil {
		return n, &dlt.Error{Op: opStatuses, StatusCode: resp.StatusCode, Err: resp.secrets.redactError(err)}
	}
	if int64(n) >= limit && reached == s.readUpTo {
		return n, &dlt.Error{Op: opStatuses, StatusCode: resp.StatusCode, Message: "a full list of completions without offsets"}
	}
	s.readUpTo = reached
	return n, nil
}

// completionRequest returns the request for a list or a stream of completions. Both have the same
// form.
func (c *Client) completionRequest(party batch.ServiceID, after int64) any {
	return struct {
		UserID  string            `json:"userId,omitempty"`
		Parties []batch.ServiceID `json:"parties"`
		Begin   int64             `json:"beginExclusive"`
	}{c.userID, []batch.ServiceID{party}, after}
}

// recordElement records one element.
func (s *completionScan) recordElement(e element) {
	if e.completion == nil {
		return
	}
	q := s.questions[e.completion.CommandID]
	if q == nil || !e.completion.isOf(s.client.userID, string(s.party)) {
		return
	}
	v := e.completion.verdict()
	switch {
	case v.reported == batch.ReportedCommitted:
		q.isCommitted = true
		q.attempt = max(q.attempt, v.attempt)
	case v.attempt >= q.lastFailure.attempt:
		q.lastFailure = v
	}
}
