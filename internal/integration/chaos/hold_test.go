package chaos

import (
	"context"
	"database/sql"
	"net/url"
	"time"
)

// holdCount is how many transactions keep the server from cleaning up, one after the other, while
// there are faults.
const holdCount = 4

// holdCleanup keeps the server from cleaning up for half of the time, until ctx ends, and returns
// for how long it did. It uses in turns a transaction that has a snapshot and stays open, and a
// transaction that has written in another database. After a restart of the server it begins again.
func (w *world) holdCleanup(ctx context.Context, d time.Duration) (held time.Duration) {
	each := d / (2 * holdCount)
	for i := 0; ctx.Err() == nil; i++ {
		period, cancel := context.WithTimeout(ctx, each)
		for i%2 == 1 && period.Err() == nil {
			began := time.Now()
			w.keepTransactionOpen(period, i%4 == 3)
			held += time.Since(began)
			sleepFor(period, 20*time.Millisecond)
		}
		<-period.Done()
		cancel()
	}
	return held
}

// keepTransactionOpen keeps a transaction open until ctx ends or the server stops.
func (w *world) keepTransactionOpen(ctx context.Context, elsewhere bool) {
	dsn, statement := w.cluster.DSN(""), "SELECT count(*) FROM pg_class"
	if elsewhere {
		other, err := url.Parse(dsn)
		if err != nil {
			w.t.Error(err)
			return
		}
		other.Path = "/template1"
		dsn, statement = other.String(), "SELECT txid_current()"
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer db.Close()
	tx, err := db.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return // the server is being restarted
	}
	defer func() { _ = tx.Rollback() }()
	for err == nil && ctx.Err() == nil {
		_, err = tx.ExecContext(context.WithoutCancel(ctx), statement)
		sleepFor(ctx, 100*time.Millisecond)
	}
}

func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
