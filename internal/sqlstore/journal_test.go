package sqlstore

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// lockedStream is a transaction that waits for the lock of a stream. Its clock goes on meanwhile.
type lockedStream struct {
	Tx
	stream   streamCols
	nowMicro int64 // in microseconds
	lockWait time.Duration
}

func (l *lockedStream) Query(_ context.Context, statement string, _ ...any) (Rows, error) {
	switch statement {
	case sqlStream:
		l.nowMicro += l.lockWait.Microseconds()
		s := l.stream
		return &oneRow{names: []string{"lease_expires", "epoch", "holder"}, values: []any{s.LeaseExpires, s.Epoch, s.Holder}}, nil
	case sqlNow:
		return &oneRow{values: []any{l.nowMicro}}, nil
	}
	panic(statement)
}

func (l *lockedStream) Texts() *Texts { return NewTexts(nil) }

func (l *lockedStream) Exec(context.Context, string, ...any) (int64, error) { return 1, nil }

type oneRow struct {
	names  []string
	values []any
	isRead bool
}

func (r *oneRow) Next() bool {
	was := r.isRead
	r.isRead = true
	return !was
}

func (r *oneRow) Scan(dest ...any) error {
	for i, d := range dest {
		reflect.ValueOf(d).Elem().Set(reflect.ValueOf(r.values[i]))
	}
	return nil
}
func (r *oneRow) Columns() ([]string, error) { return r.names, nil }

func (r *oneRow) Err() error   { return nil }
func (r *oneRow) Close() error { return nil }

// A lease that ends while its holder waits for the lock of the stream is over, because the clock
// is read under the lock. Otherwise the holder would write after another holder has got the lease.
func TestALeaseMayEndDuringTheWaitForItsLock(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ends := now.Add(time.Minute)
	for _, c := range []struct {
		lockWait    time.Duration
		isStillHeld bool
	}{{0, true}, {time.Minute - time.Microsecond, true}, {time.Minute, false}, {time.Hour, false}} {
		locked := func() *lockedStream {
			return &lockedStream{stream: streamCols{Holder: "a", Epoch: 3, LeaseExpires: ends.UnixMicro()}, nowMicro: now.UnixMicro(), lockWait: c.lockWait}
		}
		_, at, held, err := changeStream(t.Context(), locked(), "s", false, func(was store.Stream, now time.Time) (store.Stream, bool) {
			return was.Append(now, batch.StreamEntry{Stream: "s", Epoch: 3})
		})
		require.NoError(t, err)
		assert.Equal(t, c.isStillHeld, held, "append after %s", c.lockWait)
		assert.Equal(t, now.Add(c.lockWait).UnixMicro(), at)
		next, _, held, err := changeStream(t.Context(), locked(), "s", false, func(was store.Stream, now time.Time) (store.Stream, bool) {
			return was.Lease(now, "b", time.Minute)
		})
		require.NoError(t, err)
		assert.Equal(t, !c.isStillHeld, held, "lease after %s", c.lockWait)
		if held {
			assert.Equal(t, now.Add(c.lockWait).Add(time.Minute), next.LeaseExpires, "it lasts from the end of the wait on")
		}
	}
}
