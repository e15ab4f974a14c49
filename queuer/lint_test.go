package queuer_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
)

// added makes batches of one lane.
func added(service batch.ServiceID, fs ...batch.Footprint) (out []batch.Batch) {
	for i, f := range fs {
		out = append(out, batch.Batch{ID: batch.ID(fmt.Sprintf("%s%d", service, i)), Service: service, Footprint: f})
	}
	return out
}

func full(n int) string { return fmt.Sprintf("1cf126%064x", n) }

func repeat(n int, f func(i int) batch.Footprint) (out []batch.Footprint) {
	for i := range n {
		out = append(out, f(i))
	}
	return out
}

func TestLint(t *testing.T) {
	writes := func(p ...string) batch.Footprint { return batch.Footprint{Writes: p} }
	apart := func(i int) batch.Footprint {
		return writes(full(i), batch.TransactionMark(fmt.Sprint(i)))
	}
	for name, c := range map[string]struct {
		in   []batch.Batch
		o    *queuer.LintOptions
		want queuer.Report // its exported fields
		says []string
	}{
		"nothing": {says: []string{"No batches"}},
		"apart": {
			in:   added("s", repeat(20, apart)...),
			want: queuer.Report{Batches: 20, Lanes: 1, Rounds: 1, SerialRounds: 20, Narrow: 20},
			says: []string{"20 batches in 1 lane: 1 round with conflict-aware lanes, 20 one by one", "20.0 times as fast", "20 declare single addresses only"},
		},
		"a narrow window": {
			in: added("s", repeat(20, apart)...), o: &queuer.LintOptions{Queued: 6},
			want: queuer.Report{Batches: 20, Lanes: 1, Rounds: 4, SerialRounds: 20, Narrow: 20},
		},
		"whole namespaces": {
			in: added("s", repeat(9, func(i int) batch.Footprint {
				return batch.Footprint{Reads: []string{full(i)}, Writes: []string{"1cf126"}}
			})...),
			want: queuer.Report{
				Batches: 9, Lanes: 1, Rounds: 9, SerialRounds: 9, Namespaces: 9,
				Shared: []queuer.Shared{{Service: "s", Prefix: "1cf126", Batches: 9, Writers: 9}},
			},
			says: []string{"Nothing is gained", "9 declare whole namespaces. Whole namespaces gain nothing", "The namespace 1cf126 is declared by 9 and written by 9"},
		},
		"one of them": {
			in:   added("s", append(repeat(4, apart), writes("1cf126"), writes(full(9)))...),
			want: queuer.Report{Batches: 6, Lanes: 1, Rounds: 3, SerialRounds: 6, Narrow: 5, Namespaces: 1},
			says: []string{"1 declares a whole namespace.", "2.0 times"},
		},
		"nothing declared": {
			in:   added("s", batch.Footprint{}, apart(1), apart(2)),
			want: queuer.Report{Batches: 3, Lanes: 1, Rounds: 2, SerialRounds: 3, Unknown: 1, Narrow: 2},
			says: []string{"1 declares nothing"},
		},
		"parts of a namespace": {
			in:   added("s", writes("1cf12600"), writes("1cf12601"), writes(full(1))),
			want: queuer.Report{Batches: 3, Lanes: 1, Rounds: 2, SerialRounds: 3, Wide: 2, Narrow: 1},
			says: []string{"2 declare prefixes of less than 70 digits"},
		},
		"one address that all write": {
			in: added("s", repeat(5, func(i int) batch.Footprint { return writes(full(i), full(99)) })...),
			want: queuer.Report{
				Batches: 5, Lanes: 1, Rounds: 5, SerialRounds: 5, Narrow: 5,
				Shared: []queuer.Shared{{Service: "s", Prefix: full(99), Batches: 5, Writers: 5}},
			},
			says: []string{"Nothing is gained", "The address " + full(99)},
		},
		"one address that all read": {
			in: added("s", repeat(5, func(i int) batch.Footprint {
				return batch.Footprint{Reads: []string{full(99)}, Writes: []string{full(i)}}
			})...),
			want: queuer.Report{Batches: 5, Lanes: 1, Rounds: 1, SerialRounds: 5, Narrow: 5},
		},
		"the whole state": {
			in: added("s", writes(""), writes("")),
			want: queuer.Report{
				Batches: 2, Lanes: 1, Rounds: 2, SerialRounds: 2, Namespaces: 2,
				Shared: []queuer.Shared{{Service: "s", Prefix: "", Batches: 2, Writers: 2}},
			},
			says: []string{"The whole state is declared by 2"},
		},
		"by name": {
			in:   added("s", apart(1), batch.Footprint{Reads: []string{batch.TransactionMark("1")}, Writes: []string{full(2)}}),
			want: queuer.Report{Batches: 2, Lanes: 1, Rounds: 2, SerialRounds: 2, Narrow: 2, Dependent: 1},
			says: []string{"1 waits for another by name"},
		},
		"lanes": {
			in:   append(added("a", writes(full(1)), writes(full(1))), added("b", writes(full(1)))...),
			want: queuer.Report{Batches: 3, Lanes: 2, Rounds: 2, SerialRounds: 2, Narrow: 3, Shared: []queuer.Shared{{Service: "a", Prefix: full(1), Batches: 2, Writers: 2}}},
			says: []string{"3 batches in 2 lanes"},
		},
		"lanes of one": {
			in:   append(added("a", apart(1)), added("b", apart(2))...),
			want: queuer.Report{Batches: 2, Lanes: 2, Rounds: 1, SerialRounds: 1, Narrow: 2},
			says: []string{"No lane has more than one batch"},
		},
		"another ledger's addresses": {
			in: added("s", writes("abcd"), writes("ab"), writes("x")), o: &queuer.LintOptions{Address: 4, Namespace: 1},
			want: queuer.Report{Batches: 3, Lanes: 1, Rounds: 2, SerialRounds: 3, Narrow: 1, Wide: 1, Namespaces: 1},
		},
	} {
		got := queuer.Lint(c.in, c.o)
		if len(c.in) > 0 {
			assert.EqualExportedValues(t, c.want, got, name)
		}
		for _, s := range c.says {
			assert.Contains(t, got.String(), s, name)
		}
	}
}
