package chaos

import (
	"context"
	"database/sql"
	"net/url"
	"time"
)

// holds is how many transactions keep the server from cleaning up, one after the other, while
// there are faults.
const holds = 4

// hold keeps the server from cleaning up for half of the time, until ctx ends, and returns for how
// long it did. It uses in turns a transaction that has a snapshot and stays open, and a
// transaction that has written in another database. After a restart of the server it begins again.
func (w *world) hold(ctx context.Context, d time.Duration) (held time.Duration) {
	each := d / (2 * holds)
	for i := 0; ctx.Err() == nil; i++ {
		period, cancel := context.WithTimeout(ctx, each)
		for i%2 == 1 && period.Err() == nil {
			began := time.Now()
			w.sit(period, i%4 == 3)
			held += time.Since(began)
			pause(period, 20*time.Millisecond)
		}
		<-period.Done()
		cancel()
	}
	return held
}

// sit keeps a transaction open until ctx ends or the server stops.
func (w *world) sit(ctx context.Context, elsewhere bool) {
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
		pause(ctx, 100*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
