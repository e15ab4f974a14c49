package sawtooth_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// firstAttempts returns the first attempts of the batches.
func firstAttempts(bs ...batch.Batch) (as []batch.Attempt) {
	for _, b := range bs {
		as = append(as, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
	}
	return as
}

// The body of a list is the bodies of its batches, one after the other, because field 1 of
// BatchList is repeated (docs/ledgers/sawtooth.md#messages).
func TestAListIsItsBatchesInOrder(t *testing.T) {
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ContentLength == int64(len(body)) {
			bodies = append(bodies, string(body))
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer s.Close()
	c := newClient(t, s.URL, nil)
	defer c.CloseIdleConnections()
	one, two, three := settingBatch(t, "one"), settingBatch(t, "two"), settingBatch(t, "three")
	for _, b := range []batch.Batch{one, two, three} {
		require.NoError(t, c.Submit(t.Context(), firstAttempts(b)[0]))
	}
	require.NoError(t, c.SubmitList(t.Context(), firstAttempts(one, two, three)))
	require.Len(t, bodies, 4)
	assert.Equal(t, strings.Join(bodies[:3], ""), bodies[3])
	require.NoError(t, c.SubmitList(t.Context(), nil))
	assert.Len(t, bodies, 4, "nothing to send")
	assert.ErrorIs(t, c.SubmitList(t.Context(), firstAttempts(one, batch.Batch{ID: "x"})), dlt.ErrRejected)
	assert.Len(t, bodies, 4, "nothing is sent of a list with a batch that has no payload")
}

// runWithLists sends a lane of batches to a node in lists, in virtual time.
func runWithLists(t *testing.T, o sawtoothtest.Options, co sawtooth.Options, bs []batch.Batch) (*sawtoothtest.Node, map[batch.ID]batch.Record) {
	o.InMemory, o.BlockInterval = true, time.Second
	n, err := sawtoothtest.Listen(&o)
	require.NoError(t, err)
	defer n.Close()
	co.Client, co.SingleValidator = n.Client(), true
	r, err := dltbatch.New(memory.New(), newClient(t, "http://node", &co), &dltbatch.Options{
		Strategy: queuer.Pipelined(40), Retry: dltbatch.RetryPolicy{QuickRetries: -1}, ClaimTTL: 10 * time.Minute, RequestTimeout: 6 * time.Minute,
	})
	require.NoError(t, err)
	require.NoError(t, r.Add(t.Context(), bs...))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	require.NoError(t, r.Idle(ctx))
	recs := map[batch.ID]batch.Record{}
	for _, b := range bs {
		rec, err := r.Get(ctx, b.Key())
		require.NoError(t, err)
		recs[b.ID] = rec
	}
	cancel()
	require.NoError(t, <-done)
	return n, recs
}

// signedLane returns n batches of a lane, each signed by key(i), and their ids.
func signedLane(t *testing.T, n int, key func(i int) string) (bs []batch.Batch, ids []batch.ID) {
	for i := range n {
		payload, address := sawtoothtest.Set(fmt.Sprint("name", i), int64(i))
		b, err := sawtooth.Build(mustKey(t, key(i)), "lane", txOf(fmt.Sprint(i), payload, address))
		require.NoError(t, err)
		bs, ids = append(bs, b), append(ids, b.ID)
	}
	return bs, ids
}

func alwaysKey1(int) string { return privateKey1 }

// postsBySize returns how many POSTs a node got, by the number of batches in them.
func postsBySize(n *sawtoothtest.Node) map[int]int {
	sizes := map[int]int{}
	for _, e := range n.Journal() {
		if e.Kind == sawtoothtest.PostStart {
			sizes[len(e.Batches)]++
		}
	}
	return sizes
}

// postCount returns the number of POSTs.
func postCount(sizes map[int]int) (n int) {
	for _, times := range sizes {
		n += times
	}
	return n
}

func postedBatchCount(sizes map[int]int) (n int) {
	for size, times := range sizes {
		n += size * times
	}
	return n
}

func TestALaneGoesInLists(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		bs, ids := signedLane(t, 80, alwaysKey1)
		n, recs := runWithLists(t, sawtoothtest.Options{}, sawtooth.Options{}, bs)
		assert.Equal(t, ids, n.Chain())
		sizes := postsBySize(n)
		assert.Equal(t, 1, min(sizes[40], 1), "as many as may be under way, at first: %v", sizes)
		assert.Equal(t, 80, postedBatchCount(sizes), "each is sent once: %v", sizes)
		assert.LessOrEqual(t, postCount(sizes), 8, "those that a block made room for go together: %v", sizes)
		for _, rec := range recs {
			assert.Equal(t, batch.Committed, rec.State)
			assert.Equal(t, 1, rec.Attempt)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		bs, ids := signedLane(t, 10, alwaysKey1)
		n, _ := runWithLists(t, sawtoothtest.Options{}, sawtooth.Options{MaxList: 1}, bs)
		assert.Equal(t, ids, n.Chain())
		assert.Equal(t, map[int]int{1: 10}, postsBySize(n), "one at a time, where the caller wants it so")
	})
}

// When one batch's signer has no permission, its list is refused with code 30, which does not say
// which batch is the reason. The good batches are still committed, and the bad one is found.
func TestOneForbiddenBatchInAListIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stranger := func(i int) string {
			if i == 5 {
				return privateKey2
			}
			return privateKey1
		}
		bs, ids := signedLane(t, 12, stranger)
		public := mustKey(t, privateKey2).PublicKey()
		n, recs := runWithLists(t, sawtoothtest.Options{PermitsSigner: func(key string) bool { return key != public }}, sawtooth.Options{}, bs)
		want := append(append([]batch.ID{}, ids[:5]...), ids[6:]...)
		assert.Equal(t, want, n.Chain())
		for i, id := range ids {
			if i == 5 {
				assert.Equal(t, batch.Rejected, recs[id].State)
				assert.Equal(t, batch.KindRejected, recs[id].Error.Kind)
			} else {
				assert.Equal(t, batch.Committed, recs[id].State)
			}
		}
		assert.Equal(t, map[int]int{12: 1, 1: 6, 6: 1}, postsBySize(n), "the list, its batches up to the bad one, and the rest of it as a list again")
	})
}

// A 429 refuses all batches of a list, and a POST without an answer is a doubt about each: no
// batch is sent again before it was asked about.
func TestRefusedAndDoubtfulLists(t *testing.T) {
	for name, f := range map[string]sawtoothtest.Fault{
		"busy":               {Answer: sawtoothtest.AnswerError, Status: 429, Code: 31},
		"lost":               {Answer: sawtoothtest.AnswerReset},
		"lost and taken":     {Answer: sawtoothtest.AnswerReset, Acceptance: sawtoothtest.AcceptedFirst},
		"no reply":           {Answer: sawtoothtest.AnswerError, Status: 503, Code: 17},
		"no reply, taken":    {Answer: sawtoothtest.AnswerError, Status: 503, Code: 17, Acceptance: sawtoothtest.AcceptedFirst},
		"too large, it says": {Answer: sawtoothtest.AnswerError, Status: 413},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bs, ids := signedLane(t, 10, alwaysKey1)
				faults := &sawtoothtest.Faults{Request: func(p sawtoothtest.RequestPoint) sawtoothtest.Fault {
					if p.Operation == sawtoothtest.OpSubmit && len(p.Batches) > 1 && p.Try == 1 {
						return f
					}
					return sawtoothtest.Fault{}
				}}
				n, recs := runWithLists(t, sawtoothtest.Options{Faults: faults}, sawtooth.Options{}, bs)
				assert.Equal(t, ids, n.Chain())
				require.NoError(t, n.Check(sawtoothtest.Expectation{Order: map[string][]batch.ID{"": ids}}))
				for _, rec := range recs {
					assert.Equal(t, batch.Committed, rec.State)
					assert.Zero(t, rec.Spent)
				}
			})
		})
	}
}
