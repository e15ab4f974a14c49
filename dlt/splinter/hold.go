package splinter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// A log goes on over a gap if the state is the same after it. If a batch is posted to a node
// that has just started, and is committed before the stream is open again, the state changes:
// then older doubts cannot be settled. So new batches of a service whose stream broke are held
// back until its log is being written again. If the log begins anew, they wait until it is older
// than the margin: a log proves nothing of a batch that was claimed within the margin after its
// beginning ([knowledge.absent]), and the next crash would leave that batch to a person. No proof
// depends on the waiting: it only avoids changes of the state by this client.
const (
	// holdFor is how long to wait at a node that answers: its stream is tried again within 36
	// s, and the log decides within 15 s whether it goes on.
	holdFor = time.Minute
	// holdPause is the pause before a batch that was held back is tried again.
	holdPause = time.Second
)

// holds records the services whose streams broke. All methods may be called concurrently.
type holds struct {
	mu       sync.Mutex
	services map[batch.ServiceID]hold
}

type hold struct {
	broke    time.Time // when the stream broke
	answered time.Time // when the node first answered again; zero if not yet
}

func (h *holds) begin(s batch.ServiceID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.services == nil {
		h.services = map[batch.ServiceID]hold{}
	}
	h.services[s] = hold{broke: now}
}

// broke returns when a service's stream broke; false if nothing is held back.
func (h *holds) broke(s batch.ServiceID) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of, held := h.services[s]
	return of.broke, held
}

// end ends the hold of that break, but not of a later one.
func (h *holds) end(s batch.ServiceID, broke time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.services[s].broke.Equal(broke) {
		delete(h.services, s)
	}
}

// heard notes whether the node has answered, and reports whether the service is still held.
func (h *holds) heard(s batch.ServiceID, answered bool, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	of, held := h.services[s]
	switch {
	case !held:
		return false
	case !answered:
		of.answered = time.Time{}
	case of.answered.IsZero():
		of.answered = now
	case now.Sub(of.answered) >= holdFor:
		delete(h.services, s)
		return false
	}
	h.services[s] = of
	return true
}

// mayGoOn reports whether a log has an end to go on from, and has had no entry since the
// stream broke. broke is how long ago that was.
func mayGoOn(found batch.StreamFound, broke time.Duration) bool {
	return found.Covered && found.Cursor != "" && found.Until >= broke
}

// tooYoung returns for how long a log that has begun anew proves nothing of a batch that leaves
// now. The batch was claimed a little earlier, and the ages are read one after the other: twice
// the margin covers both.
func tooYoung(found batch.StreamFound, margin time.Duration) time.Duration {
	if !found.Covered {
		return 0
	}
	return max(0, 2*margin-found.Since)
}

// holdBack refuses a batch for now if the log of its service may go on.
func (c *Client) holdBack(ctx context.Context, p place, id batch.ID) error {
	broke, held := c.holds.broke(p.id)
	if !held || !isID(string(id)) {
		return nil
	}
	found, err := c.o.Journal.FindStream(ctx, streamName(p.id), nil)
	if err == nil && !mayGoOn(found, time.Since(broke)) {
		if tooYoung(found, c.o.Margin) > 0 {
			return heldBack()
		}
		c.holds.end(p.id, broke)
		return nil
	}
	_, err = c.ask(ctx, p, []batch.ID{id})
	var refused *dlt.Error
	answered := err == nil || (errors.As(err, &refused) && refused.StatusCode != 0)
	if !c.holds.heard(p.id, answered, time.Now()) {
		return nil
	}
	return heldBack()
}

func heldBack() error {
	return &dlt.Error{
		Op: opSubmit, Kind: dlt.ErrUnavailable, RetryAfter: holdPause,
		Message: "the stream of the service's events broke: new batches wait until its log proves something about them",
	}
}
