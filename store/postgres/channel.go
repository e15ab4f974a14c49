package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// maxChannel is the longest name of a channel that PostgreSQL takes, and maxPayload the longest
// payload.
const (
	maxChannel = 63
	maxPayload = 7999
)

// channel returns the name of the channel on which the processes on these tables tell hints. Each
// database has channels of its own.
func (n names) channel() string {
	const mark = "dltbatch:"
	name := mark + n.schema + ":" + n.prefix
	if len(name) <= maxChannel {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return mark + hex.EncodeToString(sum[:16])
}

// notify tells a hint. The server takes a lock of the whole cluster for the commit of a
// transaction that notifies, and gives it a number and a record of its log: so the statement has a
// transaction of its own, which does not wait for the disk nor for standbys.
const notify = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"

// notifyAtCommit is notify in a transaction of the application.
const notifyAtCommit = "SELECT pg_notify($1, $2)"

// Tell implements [store.Store] by NOTIFY.
func (s *Store) Tell(ctx context.Context, h store.Hint) error {
	const op = "tell a hint"
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return wrap(op, err)
	}
	if err := tell(ctx, c, notify, s.names.channel(), h); err != nil {
		c.Discard(context.WithoutCancel(ctx))
		return wrap(op, err)
	}
	c.Release()
	return nil
}

// tell sends a hint by a statement.
func tell(ctx context.Context, to conns.Tx, text, channel string, h store.Hint) error {
	_, err := to.Exec(ctx, text, channel, h.Text(maxPayload))
	return err
}
