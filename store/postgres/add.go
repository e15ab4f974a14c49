package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// Add is [store.Store].Add.
func (s *Store) Add(ctx context.Context, batches ...batch.Batch) error {
	const op = "add"
	in, err := sqlstore.Prepare(batches)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	add := func(fresh bool) error {
		err := s.addTransaction(ctx, op, func(ctx context.Context, t *session) error {
			s.forgetAdded(in) // an earlier try of the transaction may have set them
			err := t.add(ctx, in, fresh)
			if err == nil {
				s.keepAdded(in)
				t.noteAdded(in)
			}
			return err
		})
		if err != nil {
			s.forgetAdded(in)
		}
		return err
	}
	if s.freshness.expectsFresh() {
		if err := add(true); !s.notFreshError(err) {
			return err
		}
	}
	return add(false)
}

// notFreshError reports whether the server refused to take all batches as new, so that an Add that
// looks for known batches may succeed. Reasons are a known batch, numbers that are behind the
// stored ones, or row-level security for this role, which allows no COPY. After a known batch the
// next Adds look for known batches from the beginning. A violation of a unique index that the
// application made is not such an error.
func (s *Store) notFreshError(err error) bool {
	switch sqlState(err) {
	case featureNotSupported:
		s.freshness.noteKnown()
		return true
	case uniqueViolation:
	default:
		return false
	}
	switch name := constraintName(err); name {
	case s.names.index("batches_id"), s.names.index("batches_change"), "": // not every driver names the constraint
		s.freshness.noteKnown()
		return true
	default:
		return name == s.names.index("batches_pkey")
	}
}

// keepAdded keeps the batches of an Add for this process's own claims. Claims see the batches only
// after the transaction is committed. If the commit fails, or may have failed, the caller forgets
// them.
func (s *Store) keepAdded(in []addition) {
	for i := range in {
		if in[i].Seq != 0 {
			s.addedBatches.Put(in[i].Seq, in[i].At, in[i].Batch)
		}
	}
}

func (s *Store) forgetAdded(in []addition) {
	for i := range in {
		if in[i].Seq != 0 {
			s.addedBatches.Take(in[i].Seq, in[i].At)
			in[i].Seq = 0
		}
	}
}

type addition = sqlstore.Addition

// Add adds one batch, in a transaction of adding.
func (t *session) Add(ctx context.Context, b batch.Batch) (int64, error) {
	in, err := sqlstore.Prepare([]batch.Batch{b})
	if err != nil {
		return 0, err
	}
	if err := t.add(ctx, in, false); err != nil {
		return 0, err
	}
	t.noteAdded(in)
	return in[0].Seq, nil
}

// add adds the batches that are not known. If fresh is true it takes all batches as new, and a
// known batch gives an error of the state uniqueViolation, which ends the transaction. Plans are
// generic up to the last insert, and custom after it. The number of a batch that is not stored is
// set to 0.
func (t *session) add(ctx context.Context, in []addition, fresh bool) error {
	if err := t.recheckShard(ctx); err != nil {
		return err
	}
	if err := t.store.checkOwns(len(in), func(i int) batch.ServiceID { return in[i].Service }); err != nil {
		return err
	}
	seqs, err := t.orderKeys(ctx, batchNumbering, len(in), func(i int) (batch.ServiceID, *int64) { return in[i].Service, &in[i].At }, genericPlans)
	if err != nil {
		return err
	}
	first := make([]*addition, 0, len(in))
	var twins []*addition
	for i := range in {
		in[i].Seq = 0 // an earlier try may have set it
		if in[i].Twin {
			twins = append(twins, &in[i])
		} else {
			first = append(first, &in[i])
		}
	}
	for {
		if err := t.addFirst(ctx, first, twins, seqs, fresh); err != nil || len(twins) == 0 {
			return err
		}
		left, err := t.unknownTwins(ctx, first, twins)
		if err != nil || len(left) == 0 {
			return err
		}
		seqs, fresh = seqs[len(first):], false
		ids, keys := map[batch.ID]bool{}, map[changeKey]bool{}
		first, twins = splitTwins(left, func(a *addition) bool {
			key := changeKey{a.Service, a.DataChangeID}
			twin := ids[a.ID] || a.DataChangeID != "" && keys[key]
			ids[a.ID], keys[key] = true, true
			return twin
		})
	}
}

// splitTwins divides twins of which the first was not stored: some of them are the first now.
func splitTwins[T any](left []T, isTwin func(T) bool) (first, twins []T) {
	for _, x := range left {
		if isTwin(x) {
			twins = append(twins, x)
		} else {
			first = append(first, x)
		}
	}
	return first, twins
}

// addFirst is add for batches that may be new. It also compares their twins.
func (t *session) addFirst(ctx context.Context, sorted, twins []*addition, seqs []int64, fresh bool) (err error) {
	// Batches are in the order of the callers' keys and then of the ids' hashes, so that two calls
	// with the same batches wait for each other in one direction only. A caller that retries may
	// have made new ids.
	slices.SortStableFunc(sorted, func(a, b *addition) int {
		return cmp.Or(cmp.Compare(a.DataChangeID, b.DataChangeID), bytes.Compare(a.IDHash[:], b.IDHash[:]))
	})
	for i, a := range sorted { // numbered in order, so that each goes to the end of its index
		a.Seq = seqs[i]
	}
	var buried bool // true if the batches may have tombstones
	if fresh && len(twins) == 0 {
		buried, err = t.addNew(ctx, sorted)
	} else if err = t.addAll(ctx, sorted, twins, fresh); err == nil {
		err = t.sendTogether(ctx, t.anyTombstoneStatement(&buried))
	}
	if err == nil && t.isolation.hidesCommits() {
		buried, err = t.probeTombstones(ctx, sorted)
	}
	if err != nil || !buried {
		return err
	}
	return t.removeEnded(ctx, slices.Concat(sorted, twins))
}

// addNew adds batches that are not known. Further statements are sent together with the last
// insert.
func (t *session) addNew(ctx context.Context, in []*addition) (buried bool, err error) {
	var last []conns.Statement
	if c := t.copier(len(in)); c != nil {
		err = t.copyNew(ctx, c, in)
	} else {
		last, err = t.insertNew(ctx, in)
	}
	if err != nil {
		return false, err
	}
	if args := transactionArgs(in, nil); args != nil {
		last = append(last, conns.Statement{Text: sqlInsertTransactions, Args: args})
	}
	if args := tagArgs(in, nil); args != nil {
		last = append(last, conns.Statement{Text: sqlInsertTags, Args: args})
	}
	err = t.sendTogether(ctx, append(last, t.anyTombstoneStatement(&buried))...)
	return buried, err
}

// insertNew inserts all batches except those of the last statement, which it returns.
func (t *session) insertNew(ctx context.Context, in []*addition) (last []conns.Statement, err error) {
	for n := rowsOfChunk(in, additionBytes); n < len(in); n = rowsOfChunk(in, additionBytes) {
		if err := t.insert(ctx, in[:n], nil); err != nil {
			return nil, err
		}
		in = in[n:]
	}
	statement, args := insertStatement(in, sqlInsertNew, sqlInsertNewMore)
	return []conns.Statement{{Text: statement, Args: args}}, nil
}

func (t *session) addAll(ctx context.Context, in, twins []*addition, fresh bool) error {
	var added map[int64]bool
	if !fresh {
		added = make(map[int64]bool, len(in))
	}
	for rest := in; len(rest) > 0; {
		n := rowsOfChunk(rest, additionBytes)
		if err := t.insert(ctx, rest[:n], added); err != nil {
			return err
		}
		rest = rest[n:]
	}
	known := !fresh && len(added) < len(in)
	if known {
		t.store.freshness.noteKnown()
	}
	if known || len(twins) > 0 {
		if _, err := t.Exec(ctx, sqlCustomPlans); err != nil {
			return err
		}
		if err := t.compareKnown(ctx, in, twins, added); err != nil {
			return err
		}
		if known {
			for _, a := range in {
				if !added[a.Seq] {
					a.Seq = 0
				}
			}
		}
	}
	if args := transactionArgs(in, added); args != nil {
		if _, err := t.Exec(ctx, sqlInsertTransactions, args...); err != nil {
			return err
		}
	}
	if args := tagArgs(in, added); args != nil {
		_, err := t.Exec(ctx, sqlInsertTags, args...)
		return err
	}
	return nil
}

type knownCols struct {
	N       int64  `db:"n"` // the index of the batch in the arguments
	ID      string `db:"header_signature"`
	Service string `db:"service_id"`
	Hash    []byte `db:"payload_hash"`
}

// same compares the stored batch, found by the hash of its id, with a.
func (k *knownCols) same(a *addition) error {
	switch {
	case k.ID != string(a.ID):
		return sqlstore.HashConflict(a.Key(), batch.ID(k.ID))
	case k.Service == string(a.Service) && string(k.Hash) == string(a.PayloadHash[:]):
		return nil
	}
	return fmt.Errorf("%w: batch %s", batch.ErrConflict, a.Key())
}

// compareKnown compares the batches that were not added, and the twins, with the stored batches.
func (t *session) compareKnown(ctx context.Context, in, twins []*addition, added map[int64]bool) error {
	var ask []*addition
	for _, a := range in {
		if !added[a.Seq] {
			ask = append(ask, a)
		}
	}
	n := len(ask)
	ask = append(ask, twins...)
	known, changes, err := t.readKnown(ctx, ask)
	if err != nil {
		return err
	}
	for i, a := range ask {
		k, hash := known[i], changes[changeKey{a.Service, a.DataChangeID}]
		switch {
		case k == nil && hash == nil && i < n:
			return t.notStored(ctx, batchNumbering, a.Seq)
		case hash != nil && string(hash) != string(a.PayloadHash[:]):
			return store.ChangeConflict(a.Key(), a.DataChangeID)
		case k == nil:
			continue
		}
		if err := k.same(a); err != nil {
			return err
		}
	}
	return nil
}

// readKnown finds the stored batches of these ids, with nil for an id that is not stored, and the
// payload hashes of these keys.
func (t *session) readKnown(ctx context.Context, ask []*addition) ([]*knownCols, map[changeKey][]byte, error) {
	rows, err := sqlstore.Query[knownCols](ctx, t, sqlKnown, hashArray(len(ask), func(i int) [16]byte { return ask[i].IDHash }))
	if err != nil {
		return nil, nil, err
	}
	known := make([]*knownCols, len(ask))
	for i := range rows {
		known[rows[i].N-1] = &rows[i]
	}
	changes, err := t.knownChanges(ctx, ask)
	return known, changes, err
}

// unknownTwins returns the twins of which neither the id nor the key is stored. There are such
// twins if the first batch of the key was stored by its id without the key, or has a tombstone.
func (t *session) unknownTwins(ctx context.Context, first, twins []*addition) (left []*addition, err error) {
	stored := make(map[changeKey]bool, len(first))
	for _, a := range first {
		if a.Seq != 0 && a.DataChangeID != "" {
			stored[changeKey{a.Service, a.DataChangeID}] = true
		}
	}
	var ask []*addition
	for _, a := range twins {
		if !stored[changeKey{a.Service, a.DataChangeID}] {
			ask = append(ask, a)
		}
	}
	if len(ask) == 0 {
		return nil, nil
	}
	known, changes, err := t.readKnown(ctx, ask)
	for i, a := range ask {
		if err == nil && known[i] == nil && changes[changeKey{a.Service, a.DataChangeID}] == nil {
			left = append(left, a)
		}
	}
	return left, err
}

type changeKey struct {
	service batch.ServiceID
	change  string
}

// knownChanges returns the payload hashes of the keys of these batches, as far as the keys are
// stored.
func (t *session) knownChanges(ctx context.Context, in []*addition) (map[changeKey][]byte, error) {
	var ask []*addition
	for _, a := range in {
		if a.DataChangeID != "" {
			ask = append(ask, a)
		}
	}
	if len(ask) == 0 {
		return nil, nil //nolint:nilnil // no keys are asked for
	}
	type knownChange struct {
		Service batch.ServiceID `db:"service_id"`
		Change  string          `db:"data_change_id"`
		Hash    []byte          `db:"payload_hash"`
	}
	rows, err := sqlstore.Query[knownChange](ctx, t, sqlKnownChanges,
		textArray(len(ask), func(i int) string { return string(ask[i].Service) }),
		textArray(len(ask), func(i int) string { return ask[i].DataChangeID }))
	if err != nil {
		return nil, err
	}
	known := make(map[changeKey][]byte, len(rows))
	for _, r := range rows {
		known[changeKey{r.Service, r.Change}] = r.Hash
	}
	return known, nil
}
