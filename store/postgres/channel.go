package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// maxChannel is the longest name of a channel that PostgreSQL accepts, and maxPayload the longest
// payload, in bytes.
const (
	maxChannel = 63
	maxPayload = 7999
)

// channel returns the name of the channel on which the processes that use these tables send hints.
// Each database has its own channels.
func (n names) channel() string {
	const mark = "dltbatch:"
	name := mark + n.schema + ":" + n.prefix
	if len(name) <= maxChannel {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return mark + hex.EncodeToString(sum[:16])
}

// notifyStatement sends a hint. For the commit of a transaction that notifies, the server takes a
// lock of the whole cluster, and gives the transaction a number and a record of its log. So the
// statement has a transaction of its own, which waits neither for the disk nor for standbys.
const notifyStatement = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"

// notifyAtCommitStatement sends a hint when the transaction of the application commits.
const notifyAtCommitStatement = "SELECT pg_notify($1, $2)"

// Tell implements [store.Store] by NOTIFY.
func (s *Store) Tell(ctx context.Context, h store.Hint) error {
	const op = "tell a hint"
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return wrap(op, err)
	}
	if err := sendHint(ctx, c, notifyStatement, s.names.channel(), h); err != nil {
		c.Discard(context.WithoutCancel(ctx))
		return wrap(op, err)
	}
	c.Release()
	return nil
}

// sendHint sends a hint with the statement text.
func sendHint(ctx context.Context, to conns.Tx, text, channel string, h store.Hint) error {
	_, err := to.Exec(ctx, text, channel, h.Text(maxPayload))
	return err
}
