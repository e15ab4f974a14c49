package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// A scan finds the same lanes whether the store remembers none, some, or all of them.
func TestScansFindTheSameLanesWhateverIsRemembered(t *testing.T) {
	t.Parallel()
	s := usedSpace(t, pgx)
	remembers, _ := s.store()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	lane := func(i int) batch.ServiceID { return batch.ServiceID(fmt.Sprintf("lane%02d", i)) }
	// take claims the first batch of a lane, if it can be claimed.
	take := func(l batch.ServiceID) (c store.Claim, ok bool) {
		got, err := remembers.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{l}, Limit: 1, Window: 1, TTL: time.Minute}, func(l batch.Lane) []batch.Run {
			if l.Batches[0].State != batch.Queued {
				return nil
			}
			return pickFront(l)
		})
		require.NoError(t, err)
		if len(got.Runs) == 0 {
			return c, false
		}
		return got.Runs[0].Batches[0], true
	}
	finish := func(l batch.ServiceID) (key batch.Key, ok bool) {
		c, ok := take(l)
		if ok {
			recordFinding(t, remembers, c, store.Refused, 0)
		}
		return c.Key, ok
	}
	n := 0
	add := func(l batch.ServiceID) {
		n++
		require.NoError(t, remembers.Add(t.Context(), batch.Batch{ID: batch.ID(fmt.Sprint("b", n)), Service: l, Payload: []byte("p")}))
	}
	for round := range 12 {
		for range 10 {
			l := lane(rng.IntN(40))
			switch add(l); rng.IntN(4) {
			case 0: // the batch stays, so the store must not remember the lane
			case 1: // the batch stays in a remembered lane
				finish(l)
				add(l)
			case 2: // the batch stays in flight
				take(l)
				add(lane(rng.IntN(40)))
			case 3: // the batch returns to its place at the front
				key, ok := finish(l)
				if !ok {
					continue
				}
				seen, err := remembers.Get(t.Context(), key)
				require.NoError(t, err)
				_, err = remembers.Requeue(t.Context(), seen, store.Requeue{}, batch.By{Actor: "somebody"})
				require.NoError(t, err)
			}
		}
		switch round {
		case 3: // no process claims from this lane, so it is behind the last lane that is remembered
			add("lane99")
		case 6: // "" is a valid name of a lane
			add("")
		}
		forgets, _ := s.store()
		for range 10 {
			q := store.LanesQuery{Start: rng.IntN(3) == 0, Limit: 1 + rng.IntN(50)}
			if !q.Start {
				q.After = lane(rng.IntN(42))
			}
			want, err := forgets.Lanes(t.Context(), q)
			require.NoError(t, err)
			got, err := remembers.Lanes(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, want, got, "%+v", q)
		}
	}
}

// If the store remembers many lanes, a scan reads all of them together, unless that takes long.
func TestAScanThatTakesLongLooksAtRememberedLanes(t *testing.T) {
	t.Parallel()
	s := usedSpace(t, pgx)
	st, _ := s.store()
	var want []batch.ServiceID
	for from := range 3 {
		var group []batch.Batch
		var lanes []batch.ServiceID
		for i := range 500 {
			l := batch.ServiceID(fmt.Sprintf("lane%04d", 500*from+i))
			lanes = append(lanes, l)
			group = append(group, batch.Batch{ID: batch.ID("b-" + l), Service: l, Payload: []byte("p")})
		}
		require.NoError(t, st.Add(t.Context(), group...))
		_, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: lanes, Limit: 500, Window: 1, TTL: time.Minute}, pickFront)
		require.NoError(t, err)
		want = append(want, lanes...)
	}
	scan := func() {
		t.Helper()
		got, err := st.Lanes(t.Context(), store.LanesQuery{Start: true, Limit: 2000})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	scan()
	tx, err := s.admin.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`LOCK TABLE ` + s.schema + `.waiting_batches IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	timer := time.AfterFunc(time.Second, func() { _ = tx.Rollback() })
	defer timer.Stop()
	scan()
	scan()
}
