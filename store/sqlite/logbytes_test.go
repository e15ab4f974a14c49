package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

const (
	heldLanes   = 400
	heldGroup   = 50 // the number of batches in a Runner's calls at 1,500 batches a second
	heldPayload = 1500
)

// heldLog is a store whose log cannot shrink, because a reader stays open. So the bytes that each
// call writes can be counted in the log. The store has a history, whose indexes have many pages.
type heldLog struct {
	adder, claimer *Store // as in two processes, neither has the other's pages in memory
	path           string
	batchCount     int              // the number of batches so far
	logBytes       map[string]int64 // the bytes of each operation
	readBytes      map[string][]int64
}

func newHeldLog(t testing.TB, history int, o *sqliteopen.Options) *heldLog {
	t.Helper()
	path := filepath.Join(t.TempDir(), "q.db")
	adds, takes := openWithOneConn(t, path, o), openWithOneConn(t, path, o)
	require.NoError(t, adds.Migrate(t.Context()))
	_, err := adds.db.Exec(fmt.Sprintf(`INSERT INTO dltbatch_batches (seq, id_hash, header_signature, service_id, created_at, data_change_id, signer_public_key,
		trace, payload_hash, budget_attempts, budget_every_try) WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < %d)
		SELECT i, randomblob(16), printf('%%0112x%%016x', i, i), printf('lane%%05d', i %% %d), 1000000 + i, '', '', 0, zeroblob(32), 0, 0 FROM k`,
		history, heldLanes))
	require.NoError(t, err)
	_, err = adds.db.Exec(`INSERT INTO dltbatch_batch_payloads SELECT seq, x'00' FROM dltbatch_batches;
		INSERT INTO dltbatch_outcomes SELECT seq, 7, 3, 1, 0, 0, 0, created_at, 0, created_at, 0, NULL, '', 0, 0, 0 FROM dltbatch_batches;
		PRAGMA wal_checkpoint(TRUNCATE)`)
	require.NoError(t, err)
	t.Cleanup(holdReader(t, path))
	return &heldLog{adder: adds, claimer: takes, path: path, logBytes: map[string]int64{}, readBytes: map[string][]int64{}}
}

// openWithOneConn returns a store with one connection. It does not wait for the disk, which is not
// measured here.
func openWithOneConn(t testing.TB, path string, o *sqliteopen.Options) *Store {
	t.Helper()
	db, err := sqliteopen.OpenWith(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(1)
	_, err = db.Exec("PRAGMA synchronous = NORMAL")
	require.NoError(t, err)
	s, err := New(db, &Options{AllowNormal: true})
	require.NoError(t, err)
	return s
}

// count adds up the bytes that a call wrote to the log, and the bytes that this process read
// meanwhile.
func (h *heldLog) count(t testing.TB, op string, call func() error) {
	t.Helper()
	size, read := logBytes(t, h.path), readBytes(t)
	require.NoError(t, call())
	h.readBytes[op] = append(h.readBytes[op], readBytes(t)-read)
	h.logBytes[op] += logBytes(t, h.path) - size
}

// deliverGroup delivers a group of batches.
func (h *heldLog) deliverGroup(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	in := make([]batch.Batch, heldGroup)
	q := store.ClaimQuery{Limit: heldGroup, Window: 1, TTL: 1e9, Resend: claimQuery().Resend}
	for i := range in {
		n := h.batchCount + i
		in[i] = batch.Batch{
			ID: batch.ID(fmt.Sprintf("%0128x", 1_000_000+n)), Service: batch.ServiceID(fmt.Sprintf("lane%05d", n*7%heldLanes)),
			Payload: []byte(strings.Repeat(strconv.Itoa(n%10), heldPayload)),
		}
		q.Lanes = append(q.Lanes, in[i].Service)
	}
	h.batchCount += heldGroup
	h.count(t, "add", func() error { return h.adder.Add(ctx, in...) })
	var claimed store.Claimed
	h.count(t, "claim", func() (err error) { claimed, err = h.claimer.Claim(ctx, q, chooseSerially); return err })
	var outcomes []store.Outcome
	for _, r := range claimed.Runs {
		c := r.Batches[0]
		outcomes = append(outcomes, store.Outcome{Ref: c.Ref, Version: c.Version, Was: c.Was, Finding: store.Accepted, By: batch.BySubmitter})
	}
	require.Len(t, outcomes, heldGroup)
	record := func() error {
		applied, err := h.claimer.Record(ctx, outcomes)
		for i, a := range applied {
			require.Equal(t, store.Written, a.Result)
			outcomes[i].Version, outcomes[i].Was = a.Row.Version, &applied[i].Row
		}
		return err
	}
	h.count(t, "accepted", record)
	for i := range outcomes {
		outcomes[i].Finding, outcomes[i].By = store.IsCommitted, batch.ByMonitor
	}
	h.count(t, "committed", record)
}

// prune removes as many batches of the history as a round adds.
func (h *heldLog) prune(t testing.TB) {
	t.Helper()
	h.count(t, "prune", func() error {
		p, err := h.claimer.Prune(t.Context(), store.PruneQuery{OlderThan: 1e9, Limit: heldGroup, Tombstone: func(batch.ServiceID, string) bool { return false }})
		require.Equal(t, heldGroup, p.Batches)
		return err
	})
}

// perBatch returns the bytes of each operation for each batch, and the sum of all but retention.
func (h *heldLog) perBatch() (of map[string]int64, sum int64) {
	of = map[string]int64{}
	for op, n := range h.logBytes {
		of[op] = n / int64(h.batchCount)
		if op != "prune" {
			sum += of[op]
		}
	}
	return of, sum
}

// readBytes returns how many bytes this process has read from files so far, also from the page
// cache.
func readBytes(t testing.TB) int64 {
	t.Helper()
	read, _ := fileBytes(t)
	return read
}

// fileBytes returns how many bytes this process has read from and written to files so far.
func fileBytes(t testing.TB) (read, written int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if os.IsNotExist(err) {
		t.Skip("this system does not say what a process reads and writes")
	}
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &written)
	require.NoError(t, err)
	return read, written
}

// An Add writes to the log only, and to no temporary file. SQLite copies the pages that a
// statement changes to a file if one statement changes many: see maxAddedTogether.
func TestAddWritesToTheLogOnly(t *testing.T) {
	tier.Plain(t)
	h := newHeldLog(t, 40_000, nil)
	_, before := fileBytes(t)
	log := logBytes(t, h.path)
	for range 6 {
		in := make([]batch.Batch, 500)
		for i := range in {
			h.batchCount++
			in[i] = batch.Batch{ID: batch.ID(fmt.Sprintf("%0128x", 1_000_000+h.batchCount)), Service: batch.ServiceID(fmt.Sprintf("lane%05d", i*7%heldLanes)), Payload: make([]byte, heldPayload)}
		}
		require.NoError(t, h.adder.Add(t.Context(), in...))
	}
	_, after := fileBytes(t)
	grown := logBytes(t, h.path) - log
	t.Log(after-before, grown)
	assert.Less(t, after-before, grown+grown/2, "bytes written to all files, and to the log")
}

// While a reader stays open, each operation grows the log by at most a known number of bytes for a
// batch of 1,500 bytes, in groups as a Runner makes them. The bytes that an operation reads do not
// grow with the log.
func TestLogBytesWhileAReaderStays(t *testing.T) {
	tier.Plain(t)
	const rounds = 40
	for page, most := range map[int]map[string]int64{
		0:    {"add": 8400, "claim": 350, "accepted": 220, "committed": 720, "prune": 5600},
		1024: {"add": 5400, "claim": 300, "accepted": 200, "committed": 530, "prune": 3000},
	} {
		t.Run(fmt.Sprint("pages of ", page), func(t *testing.T) {
			h := newHeldLog(t, 40_000, &sqliteopen.Options{PageSize: page})
			for range rounds {
				h.deliverGroup(t)
				h.prune(t)
			}
			t.Log(h.perBatch())
			for op, n := range most {
				assert.LessOrEqual(t, h.logBytes[op]/int64(h.batchCount), n, "bytes a batch that %s writes to the log", op)
				early, late := total(h.readBytes[op][rounds/4:rounds/2]), total(h.readBytes[op][3*rounds/4:])
				assert.LessOrEqual(t, late, early+early/4, "bytes that %s reads, at first and at last", op)
			}
		})
	}
}

func total(all []int64) (n int64) {
	for _, x := range all {
		n += x
	}
	return n
}

// BenchmarkLogWhileAReaderStays measures how much a batch grows the log while a reader stays open,
// with a long history, for each page size.
func BenchmarkLogWhileAReaderStays(b *testing.B) {
	for _, page := range []int{1024, 2048, 4096} {
		b.Run(fmt.Sprint("pages of ", page), func(b *testing.B) {
			h := newHeldLog(b, 300_000, &sqliteopen.Options{PageSize: page})
			for b.Loop() {
				h.deliverGroup(b)
				h.prune(b)
			}
			of, sum := h.perBatch()
			for op, n := range of {
				b.ReportMetric(float64(n), op+"-logB/batch")
			}
			b.ReportMetric(float64(sum), "logB/batch")
		})
	}
}
