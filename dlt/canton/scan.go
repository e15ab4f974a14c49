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

// maxPages bounds the pages of one call; the next call goes on from there.
const maxPages = 50

// A participant's answers about an offset, and about a list that is too long.
var (
	errPruned   = errors.New("the offset was pruned")
	errAfterEnd = errors.New("the offset is behind the ledger's end")
	errTooLong  = errors.New("the list is too long")
)

// scan reads completions of a party, page by page.
type scan struct {
	c         *Client
	party     batch.ServiceID
	questions map[string]*question
	idle      time.Duration // after this time there are no more
	after     int64         // everything up to it was read
	complete  bool          // there were no more
}

func (s *scan) run(ctx context.Context) error {
	s.complete = false
	// Often only the wanted completions exist: a short first page comes at once, where a
	// longer one would wait for more.
	limit := min(int64(len(s.questions)), s.c.pageLimit.Load())
	for range maxPages {
		n, err := s.page(ctx, limit)
		switch {
		case errors.Is(err, errTooLong):
			if !s.c.halve(limit) {
				return err
			}
			limit = min(limit, s.c.pageLimit.Load())
			continue
		case err != nil:
			return err
		case int64(n) < limit:
			s.complete = true
			return nil
		case s.done():
			return nil
		}
		limit = s.c.pageLimit.Load()
	}
	return nil
}

// done reports whether all batches are committed, so that nothing is left to find.
func (s *scan) done() bool {
	for _, q := range s.questions {
		if !q.committed {
			return false
		}
	}
	return true
}

// halve makes pages smaller than limit, unless they are already.
func (c *Client) halve(limit int64) bool {
	if limit <= 1 {
		return false
	}
	if old := c.pageLimit.Load(); old >= limit {
		c.pageLimit.CompareAndSwap(old, max(1, limit/2))
	}
	return true
}

// page reads one page, and returns its number of elements.
func (s *scan) page(ctx context.Context, limit int64) (int, error) {
	c := s.c
	body, err := json.Marshal(c.completionRequest(s.party, s.after))
	if err != nil {
		return 0, fmt.Errorf("canton: encode request: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := url.Values{"limit": {itoa(limit)}, "stream_idle_timeout_ms": {itoa(s.idle.Milliseconds())}}
	req, err := newPost(ctx, c.at.completions+"?"+query.Encode(), body)
	if err != nil {
		return 0, &dlt.Error{Op: opStatuses, Kind: dlt.ErrMisconfigured, Err: secret{url: c.at.secrets}.cause(err)}
	}
	// A query may be sent twice, after a connection that was closing.
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	resp, err := c.exchange(req, opStatuses)
	if err != nil {
		return 0, err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode != http.StatusOK {
		e := readEnvelope(resp.Header, resp.Body, cancel)
		err := &dlt.Error{
			Op: opStatuses, StatusCode: resp.StatusCode, Code: max(e.grpc, 0), Message: resp.secret.show(e.text()),
			Kind: readKind(resp.StatusCode, e), RetryAfter: max(e.retry, retryAfter(resp.Header)),
		}
		switch {
		case e.known && e.id == "PARTICIPANT_PRUNED_DATA_ACCESSED":
			err.Err = errPruned
		case e.known && e.id == "OFFSET_AFTER_LEDGER_END":
			err.Err = errAfterEnd
		case resp.StatusCode == http.StatusRequestEntityTooLarge:
			err.Err = errTooLong
		}
		return 0, err
	}
	reached := s.after
	n, err := decodeElements(resp.Body, c.maxReply, func(e element) {
		s.take(e)
		reached = max(reached, e.offset)
	})
	if err != nil {
		return n, &dlt.Error{Op: opStatuses, StatusCode: resp.StatusCode, Err: resp.secret.cause(err)}
	}
	if int64(n) >= limit && reached == s.after {
		return n, &dlt.Error{Op: opStatuses, StatusCode: resp.StatusCode, Message: "a full list of completions without offsets"}
	}
	s.after = reached
	return n, nil
}

// completionRequest returns the request for a list or for a stream, which are the same.
func (c *Client) completionRequest(party batch.ServiceID, after int64) any {
	return struct {
		UserID  string            `json:"userId,omitempty"`
		Parties []batch.ServiceID `json:"parties"`
		Begin   int64             `json:"beginExclusive"`
	}{c.user, []batch.ServiceID{party}, after}
}

// take records one element.
func (s *scan) take(e element) {
	if e.completion == nil {
		return
	}
	q := s.questions[e.completion.CommandID]
	if q == nil || !e.completion.concerns(s.c.user, string(s.party)) {
		return
	}
	v := e.completion.verdict()
	switch {
	case v.reported == batch.ReportedCommitted:
		q.committed = true
		q.attempt = max(q.attempt, v.attempt)
	case v.attempt >= q.last.attempt:
		q.last = v
	}
}
