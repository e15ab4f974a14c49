package sawtoothtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// Check finds a breach of each of its rules in a journal, and nothing in a journal that is just
// right.
func TestCheck(t *testing.T) {
	base := time.Unix(1000, 0)
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	ids := func(s ...batch.ID) []batch.ID { return s }
	start := func(ms, request int, s ...batch.ID) Entry {
		return Entry{Time: at(ms), Kind: PostStart, Request: request, Batches: s}
	}
	end := func(ms, request int, s ...batch.ID) Entry {
		return Entry{Time: at(ms), Kind: PostEnd, Request: request, Batches: s}
	}
	block := func(num int, s ...batch.ID) Entry {
		return Entry{Time: at(num), Kind: BlockCommitted, Block: num, Batches: s}
	}
	committed := func(ms int, id batch.ID) Entry {
		return Entry{Time: at(ms), Kind: StatusAnswered, Word: Committed, Batches: ids(id)}
	}
	lane := func(id batch.ID) string { return string(id[:1]) }
	order := map[string][]batch.ID{"a": ids("a1", "a2"), "b": ids("b1")}
	for _, c := range []struct {
		name    string
		journal []Entry
		expect  Expectation
		want    []string // parts of the error; empty means no error
	}{
		{"nothing", nil, Expectation{}, nil},
		{"all as expected", []Entry{block(1, "a1", "b1"), block(2, "a2")}, Expectation{Lane: lane, Order: order}, nil},
		{"twice", []Entry{block(1, "a1"), block(2, "a1")}, Expectation{}, []string{"a1: committed in block 1 and again in block 2"}},
		{"twice in a block", []Entry{block(1, "a1", "a1")}, Expectation{}, []string{"a1: committed"}},
		{"swapped", []Entry{block(1, "a2", "b1"), block(2, "a1")}, Expectation{Lane: lane, Order: order}, []string{`lane "a": position 0`}},
		{"missing", []Entry{block(1, "a1", "b1")}, Expectation{Lane: lane, Order: order}, []string{`lane "a": 1 of 2 committed; the first that is missing is a2`}},
		{"whole lane missing", []Entry{block(1, "a1", "a2")}, Expectation{Lane: lane, Order: order}, []string{`lane "b": 0 of 1`}},
		{"not expected", []Entry{block(1, "a1", "a2", "b1", "b2")}, Expectation{Lane: lane, Order: order}, []string{`lane "b": 2 committed and 1 expected`}},
		{"unknown lane", []Entry{block(1, "a1", "a2", "b1", "c1")}, Expectation{Lane: lane, Order: order}, []string{`lane "c"`}},
		{"one lane by default", []Entry{block(1, "a1", "b1")}, Expectation{Order: map[string][]batch.ID{"": ids("a1", "b1")}}, nil},
		{"posts one after the other", []Entry{start(1, 1, "a1"), end(2, 1, "a1"), start(2, 2, "a1"), end(3, 2, "a1")}, Expectation{}, nil},
		{"posts at the same time", []Entry{start(1, 1, "a1"), start(2, 2, "a1"), end(3, 1, "a1"), end(4, 2, "a1")}, Expectation{}, []string{"a1: POST 2 began while POST 1"}},
		{"the long one before the last", []Entry{start(1, 1, "a1"), start(2, 2, "a1"), end(3, 2, "a1"), start(4, 3, "a1"), end(5, 3, "a1"), end(9, 1, "a1")}, Expectation{}, []string{"POST 2 began while POST 1", "POST 3 began while POST 1"}},
		{"posts of others at the same time", []Entry{start(1, 1, "a1"), start(2, 2, "b1"), end(3, 1, "a1"), end(4, 2, "b1")}, Expectation{}, nil},
		{"lists that share an id", []Entry{start(1, 1, "a1", "a2"), start(2, 2, "b1", "a2"), end(3, 1), end(4, 2)}, Expectation{}, []string{"a2: POST 2 began while POST 1"}},
		{"one that never ended", []Entry{start(1, 1, "a1"), start(500, 2, "a1"), end(501, 2, "a1")}, Expectation{TimeTolerance: 400 * time.Millisecond}, []string{"POST 2 began while POST 1"}},
		{"within the slack", []Entry{start(1, 1, "a1"), start(2, 2, "a1"), end(3, 1, "a1"), end(4, 2, "a1")}, Expectation{TimeTolerance: time.Millisecond}, nil},
		{"post after committed", []Entry{committed(5, "a1"), start(6, 1, "a1"), end(7, 1, "a1")}, Expectation{}, []string{"a1: POST 1 began 1ms after it had been answered COMMITTED"}},
		{"post before committed", []Entry{start(4, 1, "a1"), committed(5, "a1"), end(7, 1, "a1")}, Expectation{}, nil},
		{"post of another after committed", []Entry{committed(5, "a1"), start(6, 1, "a2"), end(7, 1, "a2")}, Expectation{}, nil},
		{"post soon after committed", []Entry{committed(5, "a1"), start(6, 1, "a1"), end(7, 1, "a1")}, Expectation{TimeTolerance: time.Millisecond}, nil},
		{"all of it", []Entry{block(1, "a1", "a1"), committed(5, "a1"), start(6, 1, "a1")}, Expectation{Order: map[string][]batch.ID{}}, []string{"again", `lane ""`, "answered COMMITTED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(c.journal, c.expect)
			if len(c.want) == 0 {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			for _, part := range c.want {
				assert.Contains(t, err.Error(), part)
			}
		})
	}
}
