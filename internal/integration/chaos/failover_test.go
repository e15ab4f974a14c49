package chaos

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFailover loses the database's machine for good and continues with its synchronous standby.
// Before that no bytes pass between the two for a while, so that the database has committed
// batches that the standby never gets: no caller may have got an acknowledgement of these, and no
// POST may have sent them.
func TestFailover(t *testing.T) {
	w := newWorld(t, unforgivingLedger, 2)
	between := newProxy(t, w.cluster.Addr())
	standby := w.cluster.Standby(t, between.addr())
	waitForStandby(t, w.cluster.DSN(""))
	time.Sleep(2 * time.Second)

	between.holdBytes()
	time.Sleep(addTimeLimit + claimTTL) // longer than any call waits for a commit
	require.NoError(t, w.cluster.Crash())
	lost := time.Now()
	between.resetAll(true)
	require.NoError(t, standby.Promote())
	for _, s := range w.slots {
		s.database.redirectAndCut(standby.Addr())
	}
	t.Logf("without a database for %s", time.Since(lost).Round(time.Millisecond))
	time.Sleep(2 * time.Second)

	acked := w.producer.end()
	st := w.storeAt(standby.Addr())
	w.waitUntilFinal(st)
	require.Positive(t, w.producer.failedAdds, "Adds whose commit the standby did not get")
	w.check(st, acked)
}

// waitForStandby makes commits wait for the standby, and returns once they do.
func waitForStandby(t *testing.T, dsn string) {
	db, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	defer db.Close()
	setStandbys(t, db, "*")
	require.Eventually(t, func() bool {
		var n int
		err := db.QueryRow(`SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`).Scan(&n)
		return err == nil && n == 1
	}, 20*time.Second, 20*time.Millisecond)
}
