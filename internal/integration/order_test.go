package integration

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Writers lock rows in the order of the rows' numbers, and hold no lock on a later row while they
// wait for an earlier one. Otherwise two instances with the same answers about the same batches
// would deadlock until PostgreSQL notices, a second later. Writes without an earlier read are
// grouped by kind, with one statement for each kind.
func TestRecordWaitsInOneOrder(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]store.Finding{"known and read": store.Refused, "known in two ways": store.IsCommitted} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t, pgx)
			st, _ := s.store()
			require.NoError(t, st.Add(t.Context(), newBatch("a", 1), newBatch("b", 2)))
			got, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"a", "b"}, Limit: 9, Window: 1, TTL: time.Minute}, pickFront)
			require.NoError(t, err)
			require.Len(t, got.Runs, 2)
			low, high := got.Runs[0].Batches[0], got.Runs[1].Batches[0]
			if low.Row > high.Row {
				low, high = high, low
			}
			outcomes := []store.Outcome{
				{Ref: high.Ref, Version: high.Version, Was: high.Was, By: batch.BySubmitter, Finding: store.Accepted},
				{Ref: low.Ref, Version: low.Version, Was: low.Was, By: batch.BySubmitter, Finding: second,
					Report: &batch.Report{Attempt: low.Attempt, Text: "kept"}},
			}
			tx, err := s.admin.Begin()
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.Exec(`SELECT 1 FROM `+s.schema+`.attempted_batches WHERE seq = $1 FOR UPDATE`, low.Row)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() {
				applied, err := st.Record(t.Context(), outcomes)
				for _, a := range applied {
					if a.Result != store.Written {
						err = errors.Join(err, fmt.Errorf("%s: %d", a.Key, a.Result))
					}
				}
				done <- err
			}()
			// The write waits for the first row, for longer than transactions usually take, and
			// the second row is not locked.
			require.Eventually(t, func() bool {
				var free int
				require.NoError(t, s.admin.QueryRow(`SELECT count(*) FROM (SELECT 1 FROM `+s.schema+`.attempted_batches
					WHERE seq = $1 FOR UPDATE SKIP LOCKED) f`, high.Row).Scan(&free))
				return s.countSessions("wait_event_type = 'Lock'") == 1 && free == 1
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, tx.Commit())
			require.NoError(t, <-done)
			reports, err := st.Attempts(t.Context(), low.Key)
			require.NoError(t, err)
			assert.Len(t, reports, 1, "as of any other call")
		})
	}
}

// A statement that finds a row by its version, and then writes it by its place without a lock in
// between, repeats the version in the condition of the write. PostgreSQL releases from before the
// end of 2025 do not check again the place of a row that another transaction was just changing,
// and write the changed row.
func TestWhatIsWrittenByItsPlaceNamesItsVersion(t *testing.T) {
	byPlace := regexp.MustCompile(`(\w+)\.ctid = u\.place`)
	seen := 0
	for name, text := range statements(t) {
		for _, m := range byPlace.FindAllStringSubmatch(text, -1) {
			seen++
			where := text[strings.LastIndex(text, m[0]):]
			assert.Contains(t, where, m[1]+".version = u.was", name)
		}
	}
	assert.GreaterOrEqual(t, seen, 4)
}
