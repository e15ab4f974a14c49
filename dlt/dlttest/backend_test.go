package dlttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
)

// backend is a ledger whose answers are words. It works in virtual time.
type backend struct {
	mu      sync.Mutex
	fault   dlttest.Fault
	made    int
	decided map[batch.ID]bool      // batches that the ledger will decide against
	taken   map[batch.ID]time.Time // when each batch was accepted
	posts   map[batch.ID]int
	largest int
	closed  chan struct{}
}

const (
	latency     = time.Millisecond
	commitAfter = 5 * time.Millisecond
)

var (
	errNobody  = errors.New("nobody listens")
	errReset   = errors.New("connection reset")
	errGarbage = errors.New("not a word")
)

func newBackend() *backend {
	return &backend{
		decided: map[batch.ID]bool{}, taken: map[batch.ID]time.Time{}, posts: map[batch.ID]int{}, closed: make(chan struct{}),
	}
}

func (b *backend) set(f dlttest.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
}

func (b *backend) batch(s batch.ServiceID, content string) batch.Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made++
	id := batch.ID(fmt.Sprintf("b%04d", b.made))
	b.decided[id] = b.fault == dlttest.Decided
	return batch.Batch{ID: id, Service: s, Payload: []byte("payload " + content)}
}

func (b *backend) count(id batch.ID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.posts[id]
}

func (b *backend) wait(ctx context.Context, d <-chan time.Time) error {
	select {
	case <-d:
		return nil
	case <-b.closed:
		return errReset
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commits returns how many batches were committed.
func (b *backend) commits() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.taken {
		if b.word(id) == "committed" {
			n++
		}
	}
	return n
}

// watch is commits for event streams.
func (b *backend) watch() (int, error) {
	b.mu.Lock()
	f := b.fault
	b.mu.Unlock()
	switch f {
	case dlttest.Unreachable:
		return 0, errNobody
	case dlttest.StreamCut:
		return 0, errReset
	}
	return b.commits(), nil
}

// post returns the word that answers a submission of one or several batches.
func (b *backend) post(ctx context.Context, ids ...batch.ID) (string, error) {
	if err := b.wait(ctx, time.After(latency)); err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault == dlttest.Unreachable {
		return "", errNobody
	}
	for _, id := range ids {
		b.posts[id]++
	}
	take := func() {
		for _, id := range ids {
			if _, twice := b.taken[id]; !twice {
				b.taken[id] = time.Now()
			}
		}
	}
	switch b.fault {
	case dlttest.Busy, dlttest.Refused, dlttest.Misconfigured, dlttest.NotYet, dlttest.UnknownAnswer, dlttest.Redirect:
		return string(b.fault), nil
	case dlttest.LostRequest:
		return "", errReset
	case dlttest.LostReply:
		take()
		return "", errReset
	case dlttest.Hang:
		take()
		b.mu.Unlock()
		defer b.mu.Lock()
		return "", b.wait(ctx, nil)
	}
	take()
	return "taken", nil
}

// elsewhere counts and accepts a batch at the address to which a redirect leads.
func (b *backend) elsewhere(id batch.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.posts[id]++
	b.taken[id] = time.Now()
}

type answer struct {
	id   batch.ID
	word string
}

func (b *backend) query(ctx context.Context, ids []batch.ID) ([]answer, error) {
	if err := b.wait(ctx, time.After(latency)); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.largest = max(b.largest, len(ids))
	var out []answer
	for _, id := range ids {
		out = append(out, answer{id, b.word(id)})
	}
	switch b.fault {
	case dlttest.Unreachable, dlttest.StatusUnreachable:
		return nil, errNobody
	case dlttest.StatusLost:
		return nil, errReset
	case dlttest.StatusGarbage:
		return nil, errGarbage
	case dlttest.StatusHang:
		b.mu.Unlock()
		defer b.mu.Lock()
		return nil, b.wait(ctx, nil)
	case dlttest.StatusUnknownWord:
		out[0].word = "sublime"
	case dlttest.StatusMissing:
		out = out[1:]
	case dlttest.StatusStranger:
		out = append(out, answer{"stranger", "committed"})
	case dlttest.StatusShuffled:
		slices.Reverse(out)
	}
	return out, nil
}

func (b *backend) word(id batch.ID) string {
	at, ok := b.taken[id]
	switch {
	case !ok:
		return "unknown"
	case time.Since(at) < commitAfter:
		return "pending"
	case b.decided[id]:
		return "invalid"
	}
	return "committed"
}
