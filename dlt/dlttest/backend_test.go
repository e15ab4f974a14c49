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

// testBackend is a ledger whose answers are words. It works in virtual time.
type testBackend struct {
	mu             sync.Mutex
	fault          dlttest.Fault
	batchCount     int
	decidedAgainst map[batch.ID]bool      // batches that the ledger will decide against
	acceptedAt     map[batch.ID]time.Time // when each batch was accepted
	postCounts     map[batch.ID]int
	largestQuery   int
	closed         chan struct{}
}

const (
	latency     = time.Millisecond
	commitAfter = 5 * time.Millisecond
)

var (
	errNotListening = errors.New("nobody listens")
	errReset        = errors.New("connection reset")
	errGarbage      = errors.New("not a word")
)

func newBackend() *testBackend {
	return &testBackend{
		decidedAgainst: map[batch.ID]bool{}, acceptedAt: map[batch.ID]time.Time{}, postCounts: map[batch.ID]int{}, closed: make(chan struct{}),
	}
}

func (b *testBackend) setFault(f dlttest.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
}

func (b *testBackend) newBatch(s batch.ServiceID, content string) batch.Batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.batchCount++
	id := batch.ID(fmt.Sprintf("b%04d", b.batchCount))
	b.decidedAgainst[id] = b.fault == dlttest.Decided
	return batch.Batch{ID: id, Service: s, Payload: []byte("payload " + content)}
}

func (b *testBackend) postCount(id batch.ID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.postCounts[id]
}

func (b *testBackend) wait(ctx context.Context, d <-chan time.Time) error {
	select {
	case <-d:
		return nil
	case <-b.closed:
		return errReset
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commitCount returns how many batches were committed.
func (b *testBackend) commitCount() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.acceptedAt {
		if b.wordOf(id) == "committed" {
			n++
		}
	}
	return n
}

// openStream returns how many batches were committed, or an error if streams are down.
func (b *testBackend) openStream() (int, error) {
	b.mu.Lock()
	f := b.fault
	b.mu.Unlock()
	switch f {
	case dlttest.Unreachable:
		return 0, errNotListening
	case dlttest.StreamCut:
		return 0, errReset
	}
	return b.commitCount(), nil
}

// post returns the word that answers a submission of one or several batches.
func (b *testBackend) post(ctx context.Context, ids ...batch.ID) (string, error) {
	if err := b.wait(ctx, time.After(latency)); err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault == dlttest.Unreachable {
		return "", errNotListening
	}
	for _, id := range ids {
		b.postCounts[id]++
	}
	take := func() {
		for _, id := range ids {
			if _, twice := b.acceptedAt[id]; !twice {
				b.acceptedAt[id] = time.Now()
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

// commitThroughAnother counts and accepts a batch at the address to which a redirect leads.
func (b *testBackend) commitThroughAnother(id batch.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.postCounts[id]++
	b.acceptedAt[id] = time.Now()
}

type answerWord struct {
	id   batch.ID
	word string
}

func (b *testBackend) queryWords(ctx context.Context, ids []batch.ID) ([]answerWord, error) {
	if err := b.wait(ctx, time.After(latency)); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.largestQuery = max(b.largestQuery, len(ids))
	var out []answerWord
	for _, id := range ids {
		out = append(out, answerWord{id, b.wordOf(id)})
	}
	switch b.fault {
	case dlttest.Unreachable, dlttest.StatusUnreachable:
		return nil, errNotListening
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
		out = append(out, answerWord{"stranger", "committed"})
	case dlttest.StatusShuffled:
		slices.Reverse(out)
	}
	return out, nil
}

func (b *testBackend) wordOf(id batch.ID) string {
	at, ok := b.acceptedAt[id]
	switch {
	case !ok:
		return "unknown"
	case time.Since(at) < commitAfter:
		return "pending"
	case b.decidedAgainst[id]:
		return "invalid"
	}
	return "committed"
}
