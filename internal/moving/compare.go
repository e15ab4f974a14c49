package moving

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// fingerprint of a table is the number of its rows, and a sum of a hash of each row, which does
// not depend on their order. For a sequence it is the sequence's state.
type fingerprint struct {
	Rows int64
	Hash string
}

// compareRows compares the rows on both servers.
func (m *Move) compareRows(ctx context.Context, f facts) error {
	return m.new.withMark(ctx, f.newMark, func(tx pgx.Tx) error {
		list, err := relations(ctx, tx, m.new.arrivingSchema())
		if err != nil {
			return err
		}
		var old, made map[string]fingerprint
		work, within := errgroup.WithContext(ctx)
		work.Go(func() error {
			return m.old.readOnlySnapshot(within, func(tx pgx.Tx) (err error) {
				old, err = m.readFingerprints(within, tx, list, m.old.movedSchema())
				return err
			})
		})
		work.Go(func() (err error) {
			made, err = m.readFingerprints(within, tx, list, m.new.arrivingSchema())
			return err
		})
		if err := work.Wait(); err != nil {
			return err
		}
		var rows int64
		for _, r := range list {
			if old[r.Name] != made[r.Name] {
				return refuse("%s is not the same on both servers: %+v on the old one, %+v on the new one; go back, and begin again", r.Name, old[r.Name], made[r.Name])
			}
			rows += old[r.Name].Rows
		}
		m.say(fmt.Sprintf("%d rows of %d tables and sequences are the same on both servers", rows, len(old)))
		return m.new.setMark(ctx, tx, stateRowsCompared)
	})
}

func (m *Move) readFingerprints(ctx context.Context, tx pgx.Tx, list []relation, schema string) (map[string]fingerprint, error) {
	all := map[string]fingerprint{}
	for _, r := range list {
		if m.isMigrationsTable(r) {
			continue
		}
		name := pgx.Identifier{schema, r.Name}.Sanitize()
		query := `SELECT count(*), coalesce(sum(('x' || encode(substr(sha256(convert_to(r::text, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint), 0)::text
			FROM (SELECT ` + columnsOf(r) + ` FROM ` + name + `) r`
		if r.IsSequence {
			query = `SELECT 0, format('%s %s', last_value, is_called) FROM ` + name
		}
		var p fingerprint
		if err := tx.QueryRow(ctx, query).Scan(&p.Rows, &p.Hash); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		all[r.Name] = p
	}
	return all, nil
}
