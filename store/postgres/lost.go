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
	// some place and nothing after it, so the last write would suffice if no other process wrote
	// to the same batches.
	maxWitnesses = 16
	// maxWitnessesOfTx is how many witnesses are kept of one commit.
	maxWitnessesOfTx = 4
	// lossErrorLifetime is how long Upkeep reports lost commits.
	lossErrorLifetime = 24 * time.Hour
	// pruneSlack is by how much the time of a write may differ from the time up to which Prune has
	// removed, because the two clocks run at their own rates.
	pruneSlack = 10 * time.Second
)

// witness is the state in which a committed write of this process has left a batch.
type witness struct {
	key       batch.Key
	seq       int64
	version   int64 // 0 for a batch that was added
	writtenAt time.Time
}

// commitMemory is what a process remembers of its own commits.
type commitMemory struct {
	mu                sync.Mutex
	checkedServer     string    // the start time of the server that was checked last
	isCheckDue        bool      // true if some witnesses were not checked on that server
	serverSince       time.Time // when connections began to lead to that server, or the database was replaced
	haveOthersChecked bool      // true if since then all other instances have checked, or had the time to
	witnesses         []witness // the latest witness is the last, and each batch occurs once
	loss              error     // the proof of a loss, or nil
	lossFoundAt       time.Time // the time of the proof
	isLossUnreported  bool      // true while no claim has reported the proof
}

// requireCheck makes the next transaction that writes check the witnesses.
func (w *commitMemory) requireCheck() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCheckDue, w.serverSince, w.haveOthersChecked = true, time.Now(), false
}

// unseenWitnesses returns the witnesses that are to be checked on a server, if it is not the
// server that was checked last. For a moment after a failover some connections may lead to the old
// server.
func (w *commitMemory) unseenWitnesses(server string) (last []witness, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isCheckDue && w.checkedServer == server {
		return nil, false
	}
	if w.checkedServer != server {
		w.serverSince, w.haveOthersChecked = time.Now(), false
	}
	if len(w.witnesses) == 0 {
		w.checkedServer, w.isCheckDue = server, false
		return nil, false
	}
	return slices.Clone(w.witnesses), true
}

// endCheck ends the check of a server. It keeps the witnesses that the server has, for the next
// failover. It returns those that the server has lost, unless another check has returned them
// before. Writes that were committed during the check are checked next.
func (w *commitMemory) endCheck(server string, looked, lost []witness) (news []witness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkedServer, w.isCheckDue = server, false
	w.witnesses = slices.DeleteFunc(w.witnesses, func(x witness) bool {
		w.isCheckDue = w.isCheckDue || !slices.Contains(looked, x)
		if !slices.Contains(lost, x) {
			return false
		}
		news = append(news, x)
		return true
	})
	return news
}

// noteCommitted notes writes that a server has committed. The server may differ from the one that
// was checked last: for a moment after a failover the old server may take writes, which only it
// has. While witnesses are to be checked, new witnesses do not replace them.
func (w *commitMemory) noteCommitted(server string, writes []witness) {
	if len(writes) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCheckDue = w.isCheckDue || w.checkedServer != server
	for _, x := range writes {
		w.witnesses = slices.DeleteFunc(w.witnesses, func(old witness) bool { return old.seq == x.seq })
		w.witnesses = append(w.witnesses, x)
	}
	switch n := len(w.witnesses) - maxWitnesses; {
	case w.isCheckDue:
		w.witnesses = w.witnesses[:min(len(w.witnesses), 2*maxWitnesses)]
	case n > 0:
		w.witnesses = slices.Delete(w.witnesses, 0, n)
	}
}

// keepProof keeps the proof of a loss. If tell is true, the next claim reports it.
func (w *commitMemory) keepProof(proof []string, now time.Time, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loss, w.lossFoundAt, w.isLossUnreported = fmt.Errorf("%w: %s", ErrLostCommits, strings.Join(proof, "; ")), now, tell
}

// unreportedLoss returns the proof of a loss that no claim has reported, or nil.
func (w *commitMemory) unreportedLoss() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isLossUnreported {
		return nil
	}
	return w.loss
}

func (w *commitMemory) noteLossReported() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isLossUnreported = false
}

// recentLoss returns the proof of a loss for lossErrorLifetime, and nil after that.
func (w *commitMemory) recentLoss(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loss == nil || now.Sub(w.lossFoundAt) >= lossErrorLifetime {
		return nil
	}
	return fmt.Errorf("%s ago: %w", now.Sub(w.lossFoundAt).Round(time.Minute), w.loss)
}

// noteWrite notes a write of this transaction. A commit is kept as a whole or not at all, so some
// of its writes suffice.
func (t *session) noteWrite(key batch.Key, seq, version int64) {
	if len(t.written) < maxWitnessesOfTx {
		t.written = append(t.written, witness{key: key, seq: seq, version: version, writtenAt: time.Now()})
	}
}

// noteAdded notes the batches of an addition that were not known before.
func (t *session) noteAdded(in []addition) {
	for i := range in {
		if in[i].Seq != 0 {
			t.noteWrite(in[i].Key(), in[i].Seq, 0)
		}
	}
}

// A row that moves between the tables is in one of them at any moment. Each Prune moves the time
// up to which it has removed ([session.Old]): a batch that was final before that time may be gone
// without a tombstone.
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

// checkWitnesses checks the witnesses if that is due. A witness that is gone, or has a lower
// version than this process wrote, proves a loss: nothing lowers a version, and only Prune removes
// a batch.
func (t *session) checkWitnesses(ctx context.Context) error {
	w := &t.store.commitMemory
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
		case f.Now-int64((now.Sub(x.writtenAt)+pruneSlack)/time.Microsecond) > f.Pruned:
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

// errOtherServer ends a transaction whose connection leads to another server than before, because
// a pooler has moved it. The next try checks the connection again.
var errOtherServer = fmt.Errorf("%w: the connection leads to another server than before", sqlstore.ErrMoved)

// checkServer compares the server on which a statement ran with the server that the connection is
// known to lead to. For a transaction of the application no server is known.
func (t *session) checkServer(server string) error {
	if t.server != "" && t.server != server {
		return errOtherServer
	}
	return nil
}

// noteContradiction notes batches of which this process knows more than the database has, and
// which it was about to post again.
func (s *Store) noteContradiction(outcomes []store.Outcome) {
	var proof []string
	for _, o := range outcomes {
		if o.ForgottenFor > 0 && len(proof) < maxWitnesses {
			proof = append(proof, fmt.Sprintf("batch %s had been attempted %s before", o.Key, o.ForgottenFor.Round(time.Second)))
		}
	}
	// The engine has reported each of these batches, so a claim has to fail only if it pauses
	// everything. An earlier proof has the same effect.
	if now := time.Now(); len(proof) > 0 && s.commitMemory.recentLoss(now) == nil {
		s.commitMemory.keepProof(proof, now, s.opts.PauseOnLostCommits)
	}
}
