package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// ErrLostCommits means that the database does not have writes that it had acknowledged to this
// process: a standby took over that had not got them, or a backup was restored. The text names the
// batches that prove it. There may be more, and also acts of persons: compare with the ledger
// (docs/operations.md#lost-commits). The first claim that finds it fails with this error once, and
// it is a [store.Warning] for a day. See Options.PauseOnLostCommits.
var ErrLostCommits = errors.New("dltbatch: the database has lost commits that it had acknowledged")

const (
	// maxWitnesses is how many of its last writes a process remembers. A standby has the log up to
	// some place and nothing behind it, so the last write would suffice, if no other process wrote
	// to the same batch.
	maxWitnesses = 16
	// maxWitnessesOfTx is how many of them are of one commit.
	maxWitnessesOfTx = 4
	// lossErrorLifetime is how long Upkeep reports lost commits.
	lossErrorLifetime = 24 * time.Hour
	// pruneSlack is how much the time of a write may be wrong beside the mark of Prune: both
	// clocks go at their own pace.
	pruneSlack = 10 * time.Second
)

// witness is a batch as a committed write of this process has left it.
type witness struct {
	key     batch.Key
	seq     int64
	version int64 // 0 for a batch that was added
	at      time.Time
}

// commitMemory is a process's memory of its own commits.
type commitMemory struct {
	mu     sync.Mutex
	server string    // when the server was started that was looked at last
	due    bool      // some witnesses were not looked at there
	since  time.Time // connections lead to that server, or the database was another one
	heard  bool      // since then all others have looked, or had the time to
	last   []witness // the latest last, and each batch once
	lost   error     // the proof
	at     time.Time // of the proof
	untold bool      // no claim has reported it
}

// requireCheck makes the next transaction that writes look at the witnesses.
func (w *commitMemory) requireCheck() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due, w.since, w.heard = true, time.Now(), false
}

// unseenWitnesses returns the witnesses that are to be looked at on a server: on each that is not
// the one that was looked at last. For some moments after a failover some connections may lead to
// the old one.
func (w *commitMemory) unseenWitnesses(server string) (last []witness, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.due && w.server == server {
		return nil, false
	}
	if w.server != server {
		w.since, w.heard = time.Now(), false
	}
	if len(w.last) == 0 {
		w.server, w.due = server, false
		return nil, false
	}
	return slices.Clone(w.last), true
}

// endCheck ends a check of a server. It keeps the witnesses that the server has, for the next
// failover, and returns those that it has lost, if no other check has returned them before. What
// was written during the check is checked next.
func (w *commitMemory) endCheck(server string, looked, lost []witness) (news []witness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.due = server, false
	w.last = slices.DeleteFunc(w.last, func(x witness) bool {
		w.due = w.due || !slices.Contains(looked, x)
		if !slices.Contains(lost, x) {
			return false
		}
		news = append(news, x)
		return true
	})
	return news
}

// noteCommitted takes writes that a server has committed. It may be another one than was looked at
// last: for some moments after a failover the old one may take writes, and only there they are.
// While witnesses are to be looked at, new ones push out none.
func (w *commitMemory) noteCommitted(server string, writes []witness) {
	if len(writes) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = w.due || w.server != server
	for _, x := range writes {
		w.last = slices.DeleteFunc(w.last, func(old witness) bool { return old.seq == x.seq })
		w.last = append(w.last, x)
	}
	switch n := len(w.last) - maxWitnesses; {
	case w.due:
		w.last = w.last[:min(len(w.last), 2*maxWitnesses)]
	case n > 0:
		w.last = slices.Delete(w.last, 0, n)
	}
}

// keepProof keeps a proof. tell makes the next claim report it.
func (w *commitMemory) keepProof(proof []string, now time.Time, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost, w.at, w.untold = fmt.Errorf("%w: %s", ErrLostCommits, strings.Join(proof, "; ")), now, tell
}

// untoldLoss returns the proof that no claim has reported.
func (w *commitMemory) untoldLoss() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.untold {
		return nil
	}
	return w.lost
}

func (w *commitMemory) noteTold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.untold = false
}

// recentLoss returns the proof, for a while.
func (w *commitMemory) recentLoss(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost == nil || now.Sub(w.at) >= lossErrorLifetime {
		return nil
	}
	return fmt.Errorf("%s ago: %w", now.Sub(w.at).Round(time.Minute), w.lost)
}

// noteWrite takes a write of this transaction. A commit is there as a whole or not at all, so some
// of its writes suffice.
func (t *session) noteWrite(key batch.Key, seq, version int64) {
	if len(t.writes) < maxWitnessesOfTx {
		t.writes = append(t.writes, witness{key: key, seq: seq, version: version, at: time.Now()})
	}
}

// noteAdded takes the batches of an addition that were not known.
func (t *session) noteAdded(in []addition) {
	for i := range in {
		if in[i].Seq != 0 {
			t.noteWrite(in[i].Key(), in[i].Seq, 0)
		}
	}
}

// A row that moves between the tables is in one of them at any moment. Whoever prunes moves the
// mark ([session.Old]): a batch that was final before it may be gone without a tombstone.
const (
	sqlOwnWrites = `SELECT u.n, coalesce(a.version, f.version, w.version, -1) AS version, p.id_hash IS NOT NULL AS buried,
		` + clock + ` AS now, coalesce((SELECT t.body::bigint FROM {texts} t WHERE t.kind = 'pruned' AND t.name = ''), 0) AS pruned
	FROM unnest($1::bigint[], $2::text[], $3::uuid[]) WITH ORDINALITY AS u (seq, id, id_hash, n)
	LEFT JOIN LATERAL (SELECT * FROM {batches} r WHERE r.seq = u.seq AND r.header_signature = u.id OFFSET 0) b ON true` + joinRows + `
	LEFT JOIN LATERAL (SELECT * FROM {tombstones} r WHERE r.id_hash = u.id_hash OFFSET 0) p ON true`
	sqlMarkPruned = `INSERT INTO {texts} AS t (kind, name, version, begun_at, changed_at, body)
	VALUES ('pruned', '', 1, ` + clock + `, ` + clock + `, $1::text)
	ON CONFLICT (kind, name) DO UPDATE SET version = t.version + 1, changed_at = excluded.changed_at, body = excluded.body
	WHERE t.body::bigint < excluded.body::bigint`
)

// checkWitnesses looks at the witnesses where that is due. It proves a loss if one is gone or
// older than this process left it: nothing takes a version back, and only Prune removes a batch.
func (t *session) checkWitnesses(ctx context.Context) error {
	w := &t.s.commitMemory
	last, due := w.unseenWitnesses(t.server)
	if !due {
		return nil
	}
	if err := t.planAnew(ctx); err != nil {
		return err
	}
	type seen struct {
		N       int64 `db:"n"`
		Version int64 `db:"version"`
		Buried  bool  `db:"buried"`
		Now     int64 `db:"now"`
		Pruned  int64 `db:"pruned"`
	}
	found, err := sqlstore.Query[seen](ctx, t, sqlOwnWrites,
		intArray(len(last), func(i int) int64 { return last[i].seq }),
		textArray(len(last), func(i int) string { return string(last[i].key.ID) }),
		hashArray(len(last), func(i int) [16]byte { return sqlstore.IDHash(last[i].key.ID) }))
	if err != nil {
		return fmt.Errorf("look for lost commits: %w", err)
	}
	now := time.Now()
	var lost []witness
	proof := map[int64]string{}
	for _, f := range found {
		switch x := last[f.N-1]; {
		case f.Version >= x.version, f.Buried:
		case f.Version >= 0:
			lost, proof[x.seq] = append(lost, x), fmt.Sprintf("batch %s was written as version %d, and is version %d", x.key, x.version, f.Version)
		case f.Now-int64((now.Sub(x.at)+pruneSlack)/time.Microsecond) > f.Pruned:
			lost, proof[x.seq] = append(lost, x), fmt.Sprintf("batch %s is gone", x.key)
		}
	}
	var news []string
	for _, x := range w.endCheck(t.server, last, lost) {
		news = append(news, proof[x.seq])
	}
	if len(news) > 0 {
		w.keepProof(news, now, true)
	}
	return nil
}

// errElsewhere ends a transaction of which the connection leads to another server than it did: a
// pooler has moved it. The next try looks at the connection anew.
var errElsewhere = fmt.Errorf("%w: the connection leads to another server than before", sqlstore.ErrMoved)

// checkServer compares the server that a statement has met with the one that the connection is
// known for. A transaction of the application has none.
func (t *session) checkServer(server string) error {
	if t.server != "" && t.server != server {
		return errElsewhere
	}
	return nil
}

// noteContradiction takes facts that a process knows better than the database, about batches that
// it was about to post again.
func (s *Store) noteContradiction(outcomes []store.Outcome) {
	var proof []string
	for _, o := range outcomes {
		if o.ForgottenFor > 0 && len(proof) < maxWitnesses {
			proof = append(proof, fmt.Sprintf("batch %s had been attempted %s before", o.Key, o.ForgottenFor.Round(time.Second)))
		}
	}
	// The engine has reported each of these batches, so that a claim has to fail only where it
	// pauses everything. An earlier proof says the same.
	if now := time.Now(); len(proof) > 0 && s.commitMemory.recentLoss(now) == nil {
		s.commitMemory.keepProof(proof, now, s.o.PauseOnLostCommits)
	}
}
