package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A claim does not read again what the same process has just added. The store keeps its own copy
// of the bytes, because the caller of Add may change the slice.
func TestClaimFromMemory(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			own, other := s.app(), s.app()
			claim := func(a *testApp, lane batch.ServiceID) (id batch.ID, payload string) {
				got, err := a.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{lane}, Limit: 1, Window: 1, TTL: time.Minute}, pickFront)
				require.NoError(t, err)
				require.Len(t, got.Runs, 1)
				c := got.Runs[0].Batches[0]
				return c.Key.ID, string(got.Payloads[c.Row])
			}
			for i := range 3 { // whether or not the claim before had to read
				a, b := newBatch(fmt.Sprint("own", i), fmt.Sprint("a", i)), newBatch(fmt.Sprint("others", i), fmt.Sprint("b", i))
				want := string(a.Payload)
				require.NoError(t, own.Add(t.Context(), a, b))
				clear(a.Payload)
				s.exec(`UPDATE ` + s.schema + `.batches SET serialized_batch = 'read', header_signature = 'read' || header_signature WHERE serialized_batch <> 'read'`)
				id, payload := claim(own, a.Service)
				assert.Equal(t, a.ID, id)
				assert.Equal(t, want, payload)
				id, payload = claim(other, b.Service)
				assert.Equal(t, "read"+b.ID, id)
				assert.Equal(t, "read", payload, "another process has to read")
			}
			require.NoError(t, own.Add(t.Context(), newBatch("half", "half")))
			s.exec(`DELETE FROM ` + s.schema + `.batches WHERE service_id = 'half'`)
			for range 2 {
				got, err := other.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"half"}, Limit: 1, Window: 1, TTL: time.Minute}, pickFront)
				require.NoError(t, err)
				assert.Empty(t, got.Runs, "of a batch that somebody removed")
			}
		})
	}
}

// With three processes on one schema, each claim returns for an id what was added under it,
// whichever process added the batch, and whatever happened to this or other batches before.
func TestClaimsAreWhatWasAdded(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			s := newSpace(t, d)
			apps := []*testApp{s.app(), s.app(), s.app()}
			ctx := t.Context()
			added := map[batch.ID]batch.Batch{}
			var ids []batch.ID
			some := func() (in []batch.Batch) {
				for range 1 + r.IntN(4) {
					b := newBatch(fmt.Sprint("lane", r.IntN(3)), fmt.Sprint("b", len(ids)))
					b.Budget = batch.Budget{Attempts: r.IntN(3), EveryTry: r.IntN(2) == 0}
					if r.IntN(2) == 0 {
						b.Footprint = batch.Footprint{Reads: []string{"x"}, Writes: []string{fmt.Sprintf("%04x", len(ids))}}
					}
					ids, in = append(ids, b.ID), append(in, b)
				}
				return in
			}
			find := func(a *testApp) (batch.Record, bool) {
				if len(ids) == 0 {
					return batch.Record{}, false
				}
				rec, err := a.Get(ctx, added[ids[r.IntN(len(ids))]].Key())
				return rec, err == nil
			}
			claims := 0
			for range 400 {
				a := apps[r.IntN(len(apps))]
				switch r.IntN(8) {
				case 0, 1: // in half of the cases, together with a known batch
					in := some()
					again := in
					if rec, ok := find(a); ok && r.IntN(2) == 0 {
						again = append(again[:len(in):len(in)], added[rec.Key.ID])
					}
					require.NoError(t, a.Add(ctx, again...))
					for _, b := range in {
						added[b.ID] = b
					}
				case 2: // a call with a conflict stores nothing
					if rec, ok := find(a); ok {
						b := added[rec.Key.ID]
						b.Payload = []byte("other")
						require.ErrorIs(t, a.Add(ctx, append(some(), b)...), batch.ErrConflict)
					}
				case 3:
					in, tx := some(), a.mustBegin(t)
					require.NoError(t, a.addTx(ctx, tx, in...))
					if r.IntN(2) == 0 {
						require.NoError(t, tx.rollback())
						continue
					}
					require.NoError(t, tx.commit())
					for _, b := range in {
						added[b.ID] = b
					}
				case 4:
					if rec, ok := find(a); ok {
						_, _ = a.Cancel(ctx, rec, batch.By{Actor: "test", Reason: "why"}) // fails in some states
					}
				case 5:
					if rec, ok := find(a); ok {
						_, _ = a.Requeue(ctx, rec, store.Requeue{}, batch.By{Actor: "test", Reason: "why"})
					}
				default:
					got, err := a.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"lane0", "lane1", "lane2"}, Limit: 10, Window: 3, TTL: time.Minute},
						func(l batch.Lane) []batch.Run {
							for _, b := range l.Batches {
								require.Equal(t, added[b.ID].Footprint, b.Footprint)
								require.Equal(t, added[b.ID].Service, l.Service)
							}
							return pickFront(l)
						})
					require.NoError(t, err)
					var outcomes []store.Outcome
					for _, run := range got.Runs {
						for _, c := range run.Batches {
							claims++
							want := added[c.Key.ID]
							require.Equal(t, want.Key(), c.Key)
							require.Equal(t, want.Budget, c.Budget)
							if payload, ok := got.Payloads[c.Row]; ok {
								require.Equal(t, string(want.Payload), string(payload))
							}
							o := store.Outcome{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.BySubmitter, Finding: store.IsCommitted}
							if r.IntN(3) == 0 {
								o.Finding, o.Back = store.Unposted, c.From
							}
							outcomes = append(outcomes, o)
						}
					}
					applied, err := a.Record(ctx, outcomes)
					require.NoError(t, err)
					for _, p := range applied {
						require.Equal(t, store.Written, p.Result)
					}
				}
			}
			require.Greater(t, claims, 50)
		})
	}
}
