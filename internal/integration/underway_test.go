package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// monitoredLane has a lane with one batch after the other, and a monitor that asks about due
// batches meanwhile.
type monitoredLane struct {
	t          *testing.T
	st         *postgres.Store
	addedCount int
}

// deliverSome delivers some batches, and asks about due batches, for long enough that each batch
// under way is read several times.
func (f *monitoredLane) deliverSome() {
	f.t.Helper()
	for end := time.Now().Add(1300 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		f.addedCount++
		b := batch.Batch{ID: batch.ID(fmt.Sprint("b", f.addedCount)), Service: "busy", Payload: []byte("p")}
		require.NoError(f.t, f.st.Add(f.t.Context(), b))
		c := claimFront(f.t, f.st, "busy", time.Minute)
		recordFinding(f.t, f.st, c, store.Refused, 0)
		f.pendingIDs()
	}
}

func (f *monitoredLane) pendingIDs() (ids []batch.ID) {
	f.t.Helper()
	found, err := f.st.Pending(f.t.Context(), store.PendingQuery{Limit: 10, Lease: time.Minute})
	require.NoError(f.t, err)
	for _, r := range found {
		ids = append(ids, r.Key.ID)
	}
	return ids
}

func claimFront(t *testing.T, st *postgres.Store, lane batch.ServiceID, ttl time.Duration) store.Claim {
	t.Helper()
	got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{lane}, Limit: 1, Window: 1, TTL: ttl}, pickFront)
	require.NoError(t, err)
	require.Len(t, got.Runs, 1)
	return got.Runs[0].Batches[0]
}

func recordFinding(t *testing.T, st *postgres.Store, c store.Claim, finding store.Finding, check time.Duration) {
	t.Helper()
	applied, err := st.Record(t.Context(), []store.Outcome{{
		Ref: c.Ref, Version: c.Version, Attempt: c.Attempt, By: batch.BySubmitter, Finding: finding, Check: check,
	}})
	require.NoError(t, err)
	require.Equal(t, store.Written, applied[0].Result)
}

// The monitor asks about a batch that has been under way for long when it is due, however many
// batches were finished since. The same holds for a batch whose claim commits late. The test runs
// alone, because transactions of other tests would keep the store's remembered position from
// advancing.
func TestPendingFindsWhatIsSlowAndWhatIsLate(t *testing.T) {
	s := usedSpace(t, pgx)
	st, _ := s.store()
	f := &monitoredLane{t: t, st: st}
	require.NoError(t, st.Add(t.Context(), batch.Batch{ID: "slow", Service: "s", Payload: []byte("p")}, batch.Batch{ID: "late", Service: "l", Payload: []byte("p")}))
	recordFinding(t, st, claimFront(t, st, "s", time.Minute), store.Accepted, time.Hour)
	f.deliverSome()
	inClaim, goOn, claimed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"l"}, Limit: 1, Window: 1, TTL: time.Minute}, func(batch.Lane) []batch.Run {
			close(inClaim)
			<-goOn
			return []batch.Run{{0}}
		})
		claimed <- err
	}()
	<-inClaim
	f.deliverSome()
	close(goOn)
	require.NoError(t, <-claimed)
	require.Empty(t, f.pendingIDs(), "nothing is due")
	s.stepClock(2 * time.Hour)
	require.ElementsMatch(t, []batch.ID{"slow", "late"}, f.pendingIDs())
	f.deliverSome()
	s.stepClock(2 * time.Hour)
	require.ElementsMatch(t, []batch.ID{"slow", "late"}, f.pendingIDs(), "and again")
}

// A process that knows where the lane's open work began still counts and lists a batch that
// another process has put back into its place. The test runs alone, for the same reason as the one
// above.
func TestWhatIsPutBackIsCounted(t *testing.T) {
	s := usedSpace(t, pgx)
	st, _ := s.store()
	other, _ := s.store()
	key := batch.Key{Service: "busy", ID: "back"}
	require.NoError(t, st.Add(t.Context(), batch.Batch{ID: key.ID, Service: key.Service, Payload: []byte("p")}))
	recordFinding(t, st, claimFront(t, st, "busy", time.Minute), store.Refused, 0)
	(&monitoredLane{t: t, st: st}).deliverSome()
	seen, err := other.Get(t.Context(), key)
	require.NoError(t, err)
	_, err = other.Requeue(t.Context(), seen, store.Requeue{}, batch.By{Actor: "somebody"})
	require.NoError(t, err)
	counts, err := st.Counts(t.Context(), store.CountsQuery{Service: &key.Service})
	require.NoError(t, err)
	require.Equal(t, map[batch.State]int{batch.Queued: 1}, counts[0].Attempted)
	found, _, err := st.List(t.Context(), store.ListQuery{Service: &key.Service, Open: true})
	require.NoError(t, err)
	require.Len(t, found, 1)
}

// A server that was restored, or became the primary, may give lower transaction numbers than a
// process knows: the process still finds its rows.
func TestAnotherServerIsNoticedByAQuickLook(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, "fsync=off", "synchronous_commit=on")
	admin := openAdmin(t, c.DSN(""))
	defer func() { _ = admin.Close() }()
	db := openDSN(t, pgx, c.DSN(""))
	st, err := postgres.New(db, nil)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	for _, statement := range []string{
		`CREATE PROCEDURE burn() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..70000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$`,
		`CALL burn()`,
	} {
		_, err := admin.Exec(statement)
		require.NoError(t, err)
	}
	f := &monitoredLane{t: t, st: st}
	f.deliverSome()
	require.Empty(t, f.pendingIDs())
	require.NoError(t, c.RestartImmediately())
	require.Eventually(t, func() bool { return db.Ping() == nil && admin.Ping() == nil }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, st.Add(t.Context(), batch.Batch{ID: "low", Service: "s", Payload: []byte("p")}))
	recordFinding(t, st, claimFront(t, st, "s", time.Minute), store.Accepted, 0)
	_, err = admin.Exec(`UPDATE dltbatch.attempted_batches SET made_by = 5`)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(f.pendingIDs()) == 1 }, 30*time.Second, 50*time.Millisecond)
}

// After a Prune is rolled back, the next Prune finds the same rows at once, even if others were
// removed before.
func TestAPruneThatIsRolledBackFindsItAgain(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	st, db := s.store()
	v := &deliverer{bufferCounter: &bufferCounter{t: t, db: db, st: st}, ctx: t.Context(), lanes: []batch.ServiceID{"a", "b", "c", "d"}}
	v.deliverAndPrune(2400) // so many that the next read does not begin at the first row
	v.add(400)
	claims := v.claim(400)
	v.record(claims, batch.BySubmitter, store.Accepted)
	for part := range slices.Chunk(claims, 50) { // at different times
		v.record(part, batch.ByMonitor, store.IsCommitted)
	}
	s.exec(`CREATE FUNCTION ` + s.schema + `.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$`)
	s.exec(`CREATE TRIGGER fail BEFORE DELETE ON ` + s.schema + `.batches EXECUTE FUNCTION ` + s.schema + `.fail()`)
	_, err := st.Prune(t.Context(), store.PruneQuery{Limit: 100})
	require.ErrorContains(t, err, "not now")
	s.exec(`DROP TRIGGER fail ON ` + s.schema + `.batches`)
	v.prune(400)
}
