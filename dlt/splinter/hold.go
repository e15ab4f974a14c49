package splinter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// A log goes on over a gap if the state is the same after it. A batch that is posted to a node
// that has just started, and is committed before the stream is open again, changes the state, and
// then older doubts cannot be settled. So new batches of a service whose stream broke are held
// back until its log is being written again. If the log begins anew, they wait until it is older
// than the margin: a log proves nothing about a batch that was claimed within the margin after the
// log's beginning ([doubtFacts.isMissingInLog]), and after the next crash a person would have to
// decide about that batch. No proof depends on this wait: it only avoids changes of the state by
// this client.
const (
	// maxHoldTime is how long a batch waits while the node answers: the stream is tried again
	// within 36 s, and within another 15 s it is known whether the log goes on.
	maxHoldTime = time.Minute
	// holdRetryDelay is the pause before a batch that was held back is tried again.
	holdRetryDelay = time.Second
)

// heldServices records the services whose streams broke. All methods may be called concurrently.
type heldServices struct {
	mu        sync.Mutex
	byService map[batch.ServiceID]heldService
}

type heldService struct {
	brokeAt    time.Time // when the stream broke
	answeredAt time.Time // when the node first answered again; zero if it has not
}

func (h *heldServices) begin(s batch.ServiceID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byService == nil {
		h.byService = map[batch.ServiceID]heldService{}
	}
	h.byService[s] = heldService{brokeAt: now}
}

// brokeAt returns when a service's stream broke. It returns false if the service is not held back.
func (h *heldServices) brokeAt(s batch.ServiceID) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of, held := h.byService[s]
	return of.brokeAt, held
}

// end ends the hold that began at broke, but not a later one.
func (h *heldServices) end(s batch.ServiceID, broke time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byService[s].brokeAt.Equal(broke) {
		delete(h.byService, s)
	}
}

// noteContact notes whether the node has answered, and reports whether the service is still held
// back.
func (h *heldServices) noteContact(s batch.ServiceID, answered bool, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	of, held := h.byService[s]
	switch {
	case !held:
		return false
	case !answered:
		of.answeredAt = time.Time{}
	case of.answeredAt.IsZero():
		of.answeredAt = now
	case now.Sub(of.answeredAt) >= maxHoldTime:
		delete(h.byService, s)
		return false
	}
	h.byService[s] = of
	return true
}

// isUnbroken reports whether a log has an end from which it can go on, and no entry since the
// stream broke. broke is how long ago that was.
func isUnbroken(found batch.StreamFound, broke time.Duration) bool {
	return found.Covered && found.Cursor != "" && found.Until >= broke
}

// waitUntilOldEnough returns how long a log that has begun anew will prove nothing about a batch
// that is sent now. The batch was claimed a little earlier, and the ages are read one after the
// other: twice the margin covers both.
func waitUntilOldEnough(found batch.StreamFound, margin time.Duration) time.Duration {
	if !found.Covered {
		return 0
	}
	return max(0, 2*margin-found.Since)
}

// holdBack returns an error for a batch that must wait, because the log of its service may go on.
func (c *Client) holdBack(ctx context.Context, p location, id batch.ID) error {
	broke, held := c.holds.brokeAt(p.id)
	if !held || !isID(string(id)) {
		return nil
	}
	found, err := c.options.Journal.FindStream(ctx, streamName(p.id), nil)
	if err == nil && !isUnbroken(found, time.Since(broke)) {
		if waitUntilOldEnough(found, c.options.ClockMargin) > 0 {
			return heldBackError()
		}
		c.holds.end(p.id, broke)
		return nil
	}
	_, err = c.ask(ctx, p, []batch.ID{id})
	var refused *dlt.Error
	answered := err == nil || (errors.As(err, &refused) && refused.StatusCode != 0)
	if !c.holds.noteContact(p.id, answered, time.Now()) {
		return nil
	}
	return heldBackError()
}

func heldBackError() error {
	return &dlt.Error{
		Op: opSubmit, Kind: dlt.ErrUnavailable, RetryAfter: holdRetryDelay,
		Message: "the stream of the service's events broke: new batches wait until its log proves something about them",
	}
}
