package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

const (
	isUsed  = `(EXISTS (SELECT 1 FROM {services} s) OR EXISTS (SELECT 1 FROM {batches} b) OR EXISTS (SELECT 1 FROM {orders} o))`
	sqlUsed = `SELECT ` + isUsed
)

// sqlRecordShard records the shard, unless the schema has or had batches or orders: such a schema
// cannot become a shard.
const sqlRecordShard = `INSERT INTO {texts} (kind, name, version, begun_at, changed_at, body)
	SELECT 'shard', '', 1, ` + sqlstore.Clock + `, ` + sqlstore.Clock + `, $1::text
	WHERE NOT ` + isUsed + ` ON CONFLICT DO NOTHING`

// Shard returns Options.Shard.
func (s *Store) Shard() store.Shard { return s.opts.Shard }

// recordShard records the shard of the options in a schema that has no batches yet.
func (s *Store) recordShard(ctx context.Context) error {
	if s.opts.Shard == (store.Shard{}) {
		return nil
	}
	body, err := json.Marshal(s.opts.Shard)
	if err != nil {
		return err
	}
	return s.runOnAnyConn(ctx, beginSQL, func() {}, func(ctx context.Context, t *session, _ *conns.Session) error {
		// The lock waits for additions to a schema that is still empty and no shard.
		if _, err := t.Exec(ctx, `LOCK TABLE {texts} IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, sqlRecordShard, string(body)); err != nil {
			return err
		}
		_, err := t.readShard(ctx)
		return err
	})
}

// readShard reads which shard the schema is, and compares it with the options.
func (t *session) readShard(ctx context.Context) (have store.Shard, err error) {
	body, found, err := sqlstore.Get[string](ctx, t, sqlShard)
	if err != nil {
		return have, err
	}
	if found {
		if err := json.Unmarshal([]byte(body), &have); err != nil {
			return have, t.store.names.withSchemaName(fmt.Errorf("the record of its shard: %w", err))
		}
		if err := have.Validate(); err != nil {
			return have, t.store.names.withSchemaName(fmt.Errorf("the record of its shard: %w", err))
		}
	}
	if want := t.store.opts.Shard; want != (store.Shard{}) && want != have {
		return have, t.store.names.withSchemaName(fmt.Errorf("%w: it is %s, and was opened as %s", store.ErrOtherShard, have, want))
	}
	return have, nil
}

// recheckShard reads again whether the schema is a shard, as long as another process may make it
// one: until there is a batch or an order, or a lane that had one. In an empty schema it takes a
// lock that makes [Store.recordShard] wait for the end of this transaction, and so for its
// additions. The lock needs more rights than an addition otherwise does.
func (t *session) recheckShard(ctx context.Context) error {
	s := t.store
	if have := s.shard.Load(); have == nil || *have != (store.Shard{}) || s.isNeverShard.Load() {
		return nil
	}
	used, _, err := sqlstore.Get[bool](ctx, t, sqlUsed)
	if err != nil {
		return err
	}
	if !used {
		if _, err := t.Exec(ctx, `LOCK TABLE {texts} IN ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
	}
	// The shard is read after isUsed: a schema that is in use and was no shard before never
	// becomes a shard.
	have, err := t.readShard(ctx)
	if err != nil {
		return err
	}
	if have != (store.Shard{}) {
		s.shard.Store(&have)
	} else {
		s.isNeverShard.Store(used)
	}
	return nil
}

// checkOwns returns an error if one of n lanes belongs to another shard.
func (s *Store) checkOwns(n int, lane func(i int) batch.ServiceID) error {
	have := s.shard.Load()
	if have == nil {
		return nil
	}
	for i := range n {
		if err := have.Has(lane(i)); err != nil {
			return s.names.withSchemaName(err)
		}
	}
	return nil
}

// Steer is [store.Store].Steer. It refuses a lane of another shard, since a pause there would hold
// up nothing.
func (s *Store) Steer(ctx context.Context, st store.Steering) (next batch.Control, changed bool, err error) {
	const op = "steer"
	if !st.Scope.All {
		if err := s.ensureSchemaChecked(ctx, op); err != nil {
			return batch.Control{}, false, err
		}
		if err := s.checkOwns(1, func(int) batch.ServiceID { return st.Scope.Service }); err != nil {
			return batch.Control{}, false, wrap(op, err)
		}
	}
	return s.sharedStore.Steer(ctx, st)
}

// ReadShard returns which shard the schema is, in a store that was opened without Options.Shard,
// or with the right one. The zero value is no shard.
func (s *Store) ReadShard(ctx context.Context) (have store.Shard, err error) {
	err = s.read(ctx, "read the shard", func(ctx context.Context, t *session) error {
		have, err = t.readShard(ctx)
		return err
	})
	return have, err
}
