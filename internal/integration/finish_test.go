package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// newest is the last version of the schema.
const newest = 8

func (s *space) version() (v int) {
	s.t.Helper()
	require.NoError(s.t, s.admin.QueryRow(`SELECT max(version_id) FROM `+s.schema+`.`+postgres.MigrationsTable).Scan(&v))
	return v
}

const oldAdd = `WITH b AS (INSERT INTO {batches} (seq, id_hash, header_signature, service_id, created_at, data_change_id, signer_public_key,
	trace, payload_hash, budget_attempts, budget_every_try, footprint, serialized_batch)
VALUES (nextval('{batch_seq}'), substring(encode(sha256(convert_to($2::text, 'UTF8')), 'hex') FOR 32)::uuid, $2::text, $1::text,
	` + oldNow + `, '', '', false, sha256(convert_to($3::text, 'UTF8')), 0, false, NULL, convert_to($3::text, 'UTF8'))
RETURNING seq, service_id, created_at)
INSERT INTO {waiting_batches} (seq, service_id, created_at, version, requeued) SELECT seq, service_id, created_at, 1, false FROM b`

// Code of version 1 reads the clock before anything shows that it is adding, and silently
// puts batches back. It may do both until FinishMigration. FinishMigration waits for it, and
// from then on old code fails and changes nothing.
func TestFinishMigration(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{pooled, libpq, pqBounced} {
		t.Run(d.name, func(t *testing.T) {
			s := newSpace(t, d)
			st := s.open(nil)
			require.NoError(t, st.MigrateTo(t.Context(), 1))
			o := &old{t: t, db: s.admin, sp: s.schema}
			o.add("a", "version 1")
			for range 2 {
				require.NoError(t, st.Migrate(t.Context()))
				require.Equal(t, 2, s.version(), "an old process may be at work")
			}
			o.add("a", "version 2")
			o.add("b", "claimed")
			require.True(t, o.claim("b", time.Minute))

			tx, err := s.admin.Begin()
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.Exec(o.fill(oldAdd), "a", "in flight", "payload of in flight")
			require.NoError(t, err)
			soon, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			require.Error(t, st.FinishMigration(soon), "an old process is adding")
			require.Equal(t, 2, s.version())
			done := make(chan error, 1)
			go func() { done <- st.FinishMigration(t.Context()) }()
			// An Add waits behind it for a second at most, and FinishMigration tries again.
			require.NoError(t, st.Add(t.Context(), one("c", "meanwhile")))
			require.NoError(t, tx.Commit())
			require.NoError(t, <-done)
			require.Equal(t, newest, s.version())

			for name, statement := range map[string]string{
				"an add": oldAdd,
				"what was never attempted is requeued": `INSERT INTO {waiting_batches} (seq, version, requeued, service_id, created_at)
					SELECT seq, 9, true, $1, 1 FROM {batches} WHERE header_signature = $2 AND $3 <> ''`,
				"what was attempted is requeued": `INSERT INTO {attempted_batches} (seq, service_id, created_at, state, version, attempt, spent, failures,
					claim_expires, not_before, next_check, due_at, asked_at, last_post, settles_at, doubt_attempt, doubt_since, resend_until, resends,
					refused, requeued, submission_error, submission_error_message, decision, receipts, claimed_by, at_end)
					SELECT seq, $1, 1, 1, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, true, NULL, '', '', 0, '', false
					FROM {batches} WHERE header_signature = $2 AND $3 <> ''`,
			} {
				id := "version 1"
				if name == "an add" {
					id = "too late"
				}
				_, err := o.try(statement, "a", id, "payload of too late")
				assert.ErrorContains(t, err, "written_by", name)
			}
			require.NoError(t, st.Add(t.Context(), one("c", "new")))
			for service, ids := range map[batch.ServiceID][]batch.ID{"a": {"version 1", "version 2", "in flight"}, "b": {"claimed"}} {
				for _, id := range ids {
					_, err := st.Get(t.Context(), batch.Key{Service: service, ID: id})
					assert.NoError(t, err, id)
				}
			}
			require.ErrorIs(t, func() error { _, err := st.Get(t.Context(), batch.Key{Service: "a", ID: "too late"}); return err }(), batch.ErrNotFound)
			require.NoError(t, st.FinishMigration(t.Context()))
			require.NoError(t, st.MigrateTo(t.Context(), 2))
			o.add("a", "version 2 again")
		})
	}
	s := newSpace(t, pgx)
	s.store()
	require.Equal(t, newest, s.version(), "no old process has ever used it")
}
