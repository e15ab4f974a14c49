package postgres

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// freshness estimates whether added batches are likely to be new. If so, Add takes the fast way,
// and undoes it as a whole if a batch is known. Undoing costs twice the time, dead rows, and a
// line in the server's log.
type freshness struct{ carefulLeft atomic.Int32 }

// carefulAdditions is how many additions take the slow way after an addition with a known batch. A
// caller that keeps adding known batches gains nothing from the fast way.
const carefulAdditions = 1000

func (f *freshness) expectsFresh() bool {
	return f.carefulLeft.Load() <= 0 || f.carefulLeft.Add(-1) < 0
}
func (f *freshness) noteKnown() { f.carefulLeft.Store(carefulAdditions) }

// chunkRows and chunkBytes bound the insert of one statement. A larger insert is not faster, and
// takes more memory on both sides.
const (
	chunkRows  = 1000
	chunkBytes = 2 << 20
)

// rowsOfChunk returns how many of the first rows go into one statement.
func rowsOfChunk[T any](in []T, bytes func(T) int) int {
	size := 0
	for i, row := range in {
		size += bytes(row)
		if i > 0 && (size > chunkBytes || i == chunkRows) {
			return i
		}
	}
	return len(in)
}

// additionBytes returns how many bytes of a batch are sent in one value: see sqlInsertBatches.
func additionBytes(a *addition) int { return len(a.PayloadHash) + len(a.FootprintCol) + len(a.Payload) }

// insert adds to added the numbers of the batches whose ids were not known. If added is nil, all
// batches are new.
func (t *session) insert(ctx context.Context, in []*addition, added map[int64]bool) error {
	if added == nil {
		statement, args := insertStatement(in, sqlInsertNew, sqlInsertNewMore)
		_, err := t.Exec(ctx, statement, args...)
		return err
	}
	statement, args := insertStatement(in, sqlInsertBatches, sqlInsertMore)
	seqs, err := sqlstore.Query[int64](ctx, t, statement, args...)
	for _, seq := range seqs {
		added[seq] = true
	}
	return err
}

// insertStatement returns a statement and its arguments: more if a batch has a trace context or
// tags, and plain otherwise.
func insertStatement(in []*addition, plain, more string) (statement string, args []any) {
	args = insertArgs(in)
	if !haveTraceOrTags(in) {
		return plain, args
	}
	return more, append(args, textArray(len(in), func(i int) string { return in[i].TraceParent }),
		textArray(len(in), func(i int) string { return in[i].TagsCol }))
}

// haveTraceOrTags reports whether any of the batches has a trace context or tags.
func haveTraceOrTags(in []*addition) bool {
	return slices.ContainsFunc(in, func(a *addition) bool { return a.TraceParent != "" || a.TagsCol != "" })
}

// insertArgs returns the arguments of sqlInsertNew and sqlInsertBatches.
func insertArgs(in []*addition) []any {
	size := 0
	for _, a := range in {
		size += additionBytes(a)
	}
	bytes := make([]byte, 0, size)
	at := make([]int64, len(in))
	for i, a := range in {
		at[i] = int64(len(bytes) + 1)
		bytes = append(append(append(bytes, a.PayloadHash[:]...), a.FootprintCol...), a.Payload...)
	}
	n := len(in)
	return []any{
		intArray(n, func(i int) int64 { return in[i].Seq }),
		textArray(n, func(i int) string { return string(in[i].ID) }),
		textArray(n, func(i int) string { return string(in[i].Service) }),
		intArray(n, func(i int) int64 { return in[i].At }),
		textArray(n, func(i int) string { return in[i].DataChangeID }),
		textArray(n, func(i int) string { return in[i].SignerPublicKey }),
		boolArray(n, func(i int) bool { return in[i].Trace }),
		intArray(n, func(i int) int64 { return int64(in[i].Budget.Attempts) }),
		boolArray(n, func(i int) bool { return in[i].Budget.EveryTry }),
		ints(at),
		intArray(n, func(i int) int64 { return int64(len(in[i].FootprintCol)) }),
		intArray(n, func(i int) int64 { return int64(len(in[i].Payload)) }),
		hashArray(n, func(i int) [16]byte { return in[i].IDHash }),
		store.NewRow().Version, bytes,
	}
}

// tagArgs returns the arguments of sqlInsertTags, as transactionArgs does for its statement.
func tagArgs(in []*addition, added map[int64]bool) []any {
	var seqs, at []int64
	var names, values []string
	for _, a := range in {
		if added != nil && !added[a.Seq] {
			continue
		}
		for name, value := range a.Tags {
			seqs, at, names, values = append(seqs, a.Seq), append(at, a.At), append(names, name), append(values, value)
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	n := len(seqs)
	return []any{
		ints(seqs), textArray(n, func(i int) string { return names[i] }), textArray(n, func(i int) string { return values[i] }), ints(at),
	}
}

// transactionArgs returns the arguments of sqlInsertTransactions for the transactions of the
// batches in added; if added is nil, of all batches. It returns nil if the batches have no
// transactions.
func transactionArgs(in []*addition, added map[int64]bool) []any {
	var seqs, positions []int64
	var list []batch.Transaction
	for _, a := range in {
		if added != nil && !added[a.Seq] {
			continue
		}
		for i, x := range a.Transactions {
			seqs, positions, list = append(seqs, a.Seq), append(positions, int64(i)), append(list, x)
		}
	}
	if len(list) == 0 {
		return nil
	}
	n := len(list)
	return []any{
		ints(seqs), ints(positions),
		textArray(n, func(i int) string { return list[i].ID }),
		textArray(n, func(i int) string { return list[i].FamilyName }),
		textArray(n, func(i int) string { return list[i].FamilyVersion }),
		textArray(n, func(i int) string { return list[i].SignerPublicKey }),
	}
}
